package pages

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is the index as one would write it without caring for time: all pages in
// a list, each with all tokens up to its end.
type naive struct {
	page  int
	pages []naivePage
}

type naivePage struct {
	space  Space
	tokens []int32 // from the first on
	cells  int
}

func (n *naive) has(space Space, tokens []int32, cells int) bool {
	return slices.ContainsFunc(n.pages, func(p naivePage) bool {
		return p.space == space && p.cells == cells && slices.Equal(p.tokens, tokens)
	})
}

// lookup gives the full pages, the tail's length, whether all was found and where
// the prompt diverged.
func (n *naive) lookup(space Space, tokens []int32, exact bool) (run, tail int, all bool, diverged int) {
	limit := len(tokens) / n.page
	if exact {
		limit = max(0, len(tokens)-1) / n.page
	}
	for run < limit && n.has(space, tokens[:(run+1)*n.page], n.page) {
		run++
	}
	at := run * n.page
	if !exact {
		for c := 1; c < n.page && at+c <= len(tokens); c++ {
			if n.has(space, tokens[:at+c], c) {
				tail = c
			}
		}
	}
	if at+tail == len(tokens) || exact && run == limit {
		return run, tail, true, -1
	}
	best, differs := 0, false
	for _, p := range n.pages {
		start := len(p.tokens) - p.cells
		if p.space != space || start != at || !slices.Equal(p.tokens[:start], tokens[:at]) {
			continue
		}
		c := common(p.tokens[start:], tokens[at:])
		d := c < p.cells && c < len(tokens)-at
		if c > best {
			best, differs = c, d
		} else if c == best {
			differs = differs || d
		}
	}
	if !differs || at+best == 0 {
		return run, tail, false, -1
	}
	return run, tail, false, at + best
}

// The index answers as the naive one does, whatever is put in and taken out, and
// also when hashes collide.
func TestIndexAgainstModel(t *testing.T) {
	hashers := map[string]Hasher{
		"sha256": HashSHA256,
		"weak": func(prev Hash, tokens []int32) Hash {
			return Hash{byte(tokens[0])}
		},
	}
	for name, hasher := range hashers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				checkIndex(t, newIndex(newChain(3, rapid.Bool().Draw(t, "exact"), hasher)), name == "sha256")
			})
		})
	}
}

func checkIndex(t *rapid.T, x *index, strong bool) {
	model := &naive{page: 3}
	spaces := []Space{NewSpace(testIdentity, ""), NewSpace(testIdentity, "tenant")}
	var entries []*entry
	tokens := rapid.SliceOfN(rapid.Int32Range(0, 2), 0, 14)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		space := rapid.SampledFrom(spaces).Draw(t, "space")
		p := &Prompt{chain: x.chain, tokens: tokens.Draw(t, "tokens")}
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0: // store a prompt's pages, perhaps not all of them
			for i := range p.FullPages() {
				if rapid.IntRange(0, 5).Draw(t, "leave out") > 0 {
					entries = add(x, model, entries, wantFull(space, p, i), p)
				}
			}
			if p.Len()%3 != 0 {
				entries = add(x, model, entries, wantTail(space, p, p.Len()), p)
			}
		case 1: // remove a page
			if len(entries) > 0 {
				i := rapid.IntRange(0, len(entries)-1).Draw(t, "victim")
				x.remove(entries[i])
				entries = slices.Delete(entries, i, i+1)
				model.pages = slices.Delete(model.pages, i, i+1)
			}
		default:
			run, tail, all, diverged := model.lookup(space, p.tokens, x.chain.exact)
			m := x.lookup(space, p)
			gotTail := 0
			if m.tail != nil {
				gotTail = len(m.tail.tokens)
			}
			if len(m.run) != run || gotTail != tail {
				t.Fatalf("%v: %d pages and a tail of %d instead of %d and %d", p.tokens, len(m.run), gotTail, run, tail)
			}
			reason, at := x.miss(space, p, len(m.run), m.tail)
			if (reason == "") != all {
				t.Fatalf("%v: reason %q", p.tokens, reason)
			}
			if strong && at != diverged {
				t.Fatalf("%v diverged at %d instead of %d", p.tokens, at, diverged)
			}
		}
	}
	for _, e := range entries {
		x.remove(e)
	}
	if len(x.byHash)+len(x.next)+len(x.spaces) != 0 {
		t.Fatal("an empty index holds something")
	}
}

// Tokens and places are compared even where both digests are equal.
func TestIndexTrustsNoDigest(t *testing.T) {
	x := newIndex(newChain(testPage, false, HashSHA256))
	space := NewSpace(testIdentity, "")
	p := &Prompt{chain: x.chain, tokens: seq(1, 8)}
	w := wantFull(space, p, 0)
	x.insert(space, w.prev, w.link, 0, seq(2, 4))
	if x.find(space, w.link, 0, w.tokens) != nil || x.why(space, w.link, 0, w.tokens) != ReasonTokenMismatch {
		t.Error("other tokens are taken for the prompt's")
	}
	w = wantFull(space, p, 1)
	x.insert(space, w.prev, w.link, 5, w.tokens)
	if x.find(space, w.link, 1, w.tokens) != nil || x.why(space, w.link, 1, w.tokens) != ReasonPageIndex {
		t.Error("a page is taken for one at another place")
	}
	// A tail after another prefix whose hash is the same.
	weak := newIndex(newChain(testPage, false, func(Hash, []int32) Hash { return Hash{} }))
	a, b := &Prompt{chain: weak.chain, tokens: seq(1, 6)}, &Prompt{chain: weak.chain, tokens: join(seq(2, 4), seq(1, 6)[4:])}
	w = wantTail(space, a, 6)
	weak.insert(space, w.prev, w.link, 1, w.tokens)
	if weak.tailAfter(space, a, 1) == nil || weak.tailAfter(space, b, 1) != nil {
		t.Error("a tail is taken for one after another prefix")
	}
	// Of several pages the one that differs least names the reason.
	w = wantTail(space, p, 7)
	far, near := space, space
	far.ModelRevision, far.Salt, near.SlotRevision = "other", "other", "other"
	for _, s := range []Space{far, near, far} {
		x.insert(s, w.prev, w.link, w.index, w.tokens)
	}
	if why := x.why(space, w.link, w.index, w.tokens); why != ReasonSlotRevision {
		t.Errorf("reason %q", why)
	}
}

func add(x *index, model *naive, entries []*entry, w want, p *Prompt) []*entry {
	if x.find(w.space, w.link, w.index, w.tokens) != nil {
		return entries
	}
	model.pages = append(model.pages, naivePage{w.space, p.tokens[:w.from+len(w.tokens)], len(w.tokens)})
	return append(entries, x.insert(w.space, w.prev, w.link, w.index, w.tokens))
}

// bigIndex holds n pages: prompts that share a trunk, or share nothing.
func bigIndex(n int, trunk bool) *index {
	x := newIndex(newChain(64, false, HashSHA256))
	space := NewSpace(testIdentity, "")
	for g := 0; n > 0; g++ {
		p := &Prompt{chain: x.chain}
		if trunk {
			p.Append(seq(-1, 64)...)
		}
		p.Append(int32(g))
		p.Append(seq(1, 63)...)
		for i := range p.FullPages() {
			if w := wantFull(space, p, i); x.find(w.space, w.link, w.index, w.tokens) == nil {
				x.insert(w.space, w.prev, w.link, w.index, w.tokens)
				n--
			}
		}
	}
	return x
}

// BenchmarkLookup has to be flat over the number of known pages.
func BenchmarkLookup(b *testing.B) {
	for _, trunk := range []bool{false, true} {
		for _, n := range []int{100, 1_000, 10_000, 100_000} {
			x := bigIndex(n, trunk)
			space := NewSpace(testIdentity, "")
			tokens := seq(1, 64)
			if trunk {
				tokens = join(seq(-1, 64), []int32{int32(n / 2)}, seq(1, 20), seq(7, 43))
			}
			b.Run(fmt.Sprintf("trunk=%v/pages=%d", trunk, n), func(b *testing.B) {
				for b.Loop() {
					p := &Prompt{chain: x.chain, tokens: tokens}
					m := x.lookup(space, p)
					x.miss(space, p, len(m.run), m.tail)
				}
			})
		}
	}
}

// BenchmarkHash hashes a prompt of 100,000 tokens.
func BenchmarkHash(b *testing.B) {
	c := newChain(64, false, HashSHA256)
	tokens := seq(1, 100_000)
	for b.Loop() {
		p := &Prompt{chain: c, tokens: tokens}
		p.Hash(p.FullPages() - 1)
	}
}
