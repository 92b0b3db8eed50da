package gbnf

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// leftRecursion finds a rule that can come to itself before any character; -1
// when there is none.
func leftRecursion(bodies []*expr) int {
	empty := make([]bool, len(bodies))
	for changed := true; changed; {
		changed = false
		for id, body := range bodies {
			if !empty[id] && body.empty(empty) {
				empty[id], changed = true, true
			}
		}
	}
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(bodies))
	first := make([][]int, len(bodies))
	for id, body := range bodies {
		body.first(empty, func(ref int) { first[id] = append(first[id], ref) })
	}
	// Depth first without recursion: chains of rules can be long.
	type visit struct{ id, next int }
	for id := range bodies {
		if state[id] != unseen {
			continue
		}
		state[id] = open
		stack := []visit{{id: id}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(first[top.id]) {
				state[top.id] = done
				stack = stack[:len(stack)-1]
				continue
			}
			ref := first[top.id][top.next]
			top.next++
			switch state[ref] {
			case open:
				return ref
			case unseen:
				state[ref] = open
				stack = append(stack, visit{id: ref})
			}
		}
	}
	return -1
}

// empty says whether the expression matches the empty text, given which rules do.
func (e *expr) empty(rules []bool) bool {
	switch e.kind {
	case kindClass:
		return false
	case kindRef:
		return rules[e.ref]
	case kindRepeat:
		return e.min == 0 || e.list[0].empty(rules)
	case kindAlt:
		return slices.ContainsFunc(e.list, func(x *expr) bool { return x.empty(rules) })
	default:
		return !slices.ContainsFunc(e.list, func(x *expr) bool { return !x.empty(rules) })
	}
}

// first calls ref for each rule that can come before any character.
func (e *expr) first(rules []bool, ref func(int)) {
	switch e.kind {
	case kindClass:
	case kindRef:
		ref(e.ref)
	case kindSeq:
		for _, x := range e.list {
			x.first(rules, ref)
			if !x.empty(rules) {
				return
			}
		}
	default:
		for _, x := range e.list {
			x.first(rules, ref)
		}
	}
}

// normalize sorts spans and joins those that touch.
func normalize(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	var out []span
	for _, s := range spans {
		s.hi = min(s.hi, utf8.MaxRune)
		if s.lo > s.hi {
			continue
		}
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

func complement(spans []span) []span {
	var out []span
	from := rune(0)
	for _, s := range normalize(spans) {
		if s.lo > from {
			out = append(out, span{from, s.lo - 1})
		}
		from = s.hi + 1
	}
	if from <= utf8.MaxRune {
		out = append(out, span{from, utf8.MaxRune})
	}
	return out
}
