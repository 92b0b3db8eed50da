package pages

import (
	"slices"
	"sort"
)

// entry is one page that is known: in host memory, on disk, or both. The store's
// mutex guards it.
type entry struct {
	space  *spaceRef
	prev   link // of the page before it
	link   link
	index  int
	tokens []int32
	gone   bool // no longer in the index

	host hostState
	disk diskState
}

// spaceRef is a space that has entries.
type spaceRef struct {
	Space
	entries int
}

// index finds pages by hash and by the page before them. It compares token ids
// whatever the hashes say. Its cost does not grow with the number of pages, but
// for the logarithm of how many pages follow the same prefix.
type index struct {
	page   int
	chain  *chain
	spaces map[Space]*spaceRef
	byHash map[Hash][]*entry
	// next lists the pages and tails that follow a prefix, in order of their tokens.
	next map[nextKey][]*entry
}

type nextKey struct {
	space  *spaceRef
	parent Hash
}

func newIndex(c *chain) *index {
	return &index{
		page:   c.page,
		chain:  c,
		spaces: make(map[Space]*spaceRef),
		byHash: make(map[Hash][]*entry),
		next:   make(map[nextKey][]*entry),
	}
}

// insert adds a page that find does not find.
func (x *index) insert(space Space, prev, l link, at int, tokens []int32) *entry {
	ref := x.spaces[space]
	if ref == nil {
		ref = &spaceRef{Space: space}
		x.spaces[space] = ref
	}
	ref.entries++
	e := &entry{space: ref, prev: prev, link: l, index: at, tokens: tokens}
	x.byHash[l.hash] = append(x.byHash[l.hash], e)
	key := nextKey{ref, prev.hash}
	kids := x.next[key]
	i := sort.Search(len(kids), func(i int) bool { return slices.Compare(kids[i].tokens, tokens) > 0 })
	x.next[key] = slices.Insert(kids, i, e)
	return e
}

func (x *index) remove(e *entry) {
	e.gone = true
	if rest := without(x.byHash[e.link.hash], e); len(rest) == 0 {
		delete(x.byHash, e.link.hash)
	} else {
		x.byHash[e.link.hash] = rest
	}
	key := nextKey{e.space, e.prev.hash}
	kids := x.next[key]
	from := sort.Search(len(kids), func(i int) bool { return slices.Compare(kids[i].tokens, e.tokens) >= 0 })
	at := from + slices.Index(kids[from:], e)
	if kids = slices.Delete(kids, at, at+1); len(kids) == 0 {
		delete(x.next, key)
	} else {
		x.next[key] = kids
	}
	e.space.entries--
	if e.space.entries == 0 {
		delete(x.spaces, e.space.Space)
	}
}

func without(list []*entry, e *entry) []*entry {
	i := slices.Index(list, e)
	return slices.Delete(list, i, i+1)
}

// find is the page with exactly this key and these tokens, and nil otherwise.
func (x *index) find(space Space, l link, at int, tokens []int32) *entry {
	for _, e := range x.byHash[l.hash] {
		if e.index == at && e.link.sum == l.sum && e.space.Space == space && slices.Equal(e.tokens, tokens) {
			return e
		}
	}
	return nil
}

// why names what keeps the pages with this hash from being the one asked for.
// Of several pages the one that differs least counts, and of its differences the
// first in the order of the key's fields.
func (x *index) why(space Space, l link, at int, tokens []int32) Reason {
	reason, fewest := ReasonTokenHash, 0
	for _, e := range x.byHash[l.hash] {
		d := space.differs(e.space.Space)
		if e.index != at {
			d = append(d, ReasonPageIndex)
		}
		if len(d) == 0 {
			if e.link.sum == l.sum && slices.Equal(e.tokens, tokens) {
				continue // the page itself: it is known, but cannot be had now
			}
			return ReasonTokenMismatch
		}
		if fewest == 0 || len(d) < fewest {
			reason, fewest = d[0], len(d)
		}
	}
	return reason
}

// match is what the index knows of a prompt.
type match struct {
	run  []*entry // full pages from the first on
	tail *entry   // a known incomplete page that goes on where run ends
}

// lookup walks the prompt's pages. An exact one takes only full pages, and leaves
// at least one token for the last chunk of the prefill.
func (x *index) lookup(space Space, p *Prompt) match {
	var m match
	limit := x.fullPages(p)
	for len(m.run) < limit {
		i := len(m.run)
		e := x.find(space, p.link(i), i, p.pageTokens(i))
		if e == nil {
			break
		}
		m.run = append(m.run, e)
	}
	if !x.chain.exact {
		m.tail = x.tailAfter(space, p, len(m.run))
	}
	return m
}

// tailAfter is the longest known incomplete page that goes on after a run.
func (x *index) tailAfter(space Space, p *Prompt, run int) *entry {
	ref := x.spaces[space]
	if ref == nil {
		return nil
	}
	return x.longestTail(ref, p.link(run-1), run, p.tokens[run*x.page:])
}

// miss explains why a prompt's pages after a run were not found: the reason, and
// the first token at which the known prompt that shares most tokens with this
// one differs from it, or -1. The reason is empty when every page that may be
// used was found.
func (x *index) miss(space Space, p *Prompt, run int, tail *entry) (Reason, int) {
	rest := p.tokens[run*x.page:]
	if len(rest) == 0 || x.chain.exact && run == x.fullPages(p) || tail != nil && len(tail.tokens) == len(rest) {
		return "", -1
	}
	tokens := rest[:min(len(rest), x.page)]
	prev := p.link(run - 1)
	reason := x.why(space, x.chain.link(prev, tokens), run, tokens)
	if ref := x.spaces[space]; ref != nil {
		return reason, x.diverged(ref, prev.hash, run, rest)
	}
	return reason, -1
}

// fullPages is how many full pages a lookup may use.
func (x *index) fullPages(p *Prompt) int {
	if x.chain.exact {
		return max(0, p.Len()-1) / x.page
	}
	return p.FullPages()
}

// longestTail is the longest incomplete page after prev whose tokens are the
// next ones of the prompt.
func (x *index) longestTail(ref *spaceRef, prev link, at int, rest []int32) *entry {
	kids := x.next[nextKey{ref, prev.hash}]
	q := rest[:min(len(rest), x.page-1)]
	for len(q) > 0 {
		// A prefix of q sorts before q, and whatever sorts between the two
		// begins with that prefix as well: so it is enough to look at the last
		// child that does not sort after q, and then at what it shares with q.
		i := sort.Search(len(kids), func(i int) bool { return slices.Compare(kids[i].tokens, q) > 0 }) - 1
		if i < 0 {
			return nil
		}
		e := kids[i]
		n := common(e.tokens, q)
		kids = kids[:i]
		if n < len(e.tokens) {
			q = q[:n]
			continue
		}
		if e.index == at && e.link == x.chain.link(prev, e.tokens) {
			return e
		}
		// Only colliding hashes bring a page of another prefix here.
	}
	return nil
}

// diverged is the first token of the prompt in which it differs from the known
// page that shares most with it, or -1.
func (x *index) diverged(ref *spaceRef, parent Hash, at int, rest []int32) int {
	kids := x.next[nextKey{ref, parent}]
	i := sort.Search(len(kids), func(i int) bool { return slices.Compare(kids[i].tokens, rest) > 0 })
	best, differs := 0, false
	for _, e := range kids[max(0, i-1):min(len(kids), i+1)] {
		n := common(e.tokens, rest)
		d := n < len(e.tokens) && n < len(rest)
		if n > best {
			best, differs = n, d
		} else if n == best {
			differs = differs || d
		}
	}
	if !differs || at == 0 && best == 0 {
		return -1
	}
	return at*x.page + best
}

// common is how many tokens two sequences have in common from the start.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
