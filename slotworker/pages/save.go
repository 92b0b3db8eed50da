package pages

import (
	"errors"
	"fmt"
	"slices"
)

// Save is a sequence whose state is to be kept.
type Save struct {
	// Prompt has the tokens that the sequence was computed from, at least as many
	// as the state has cells.
	Prompt *Prompt
	Salt   string
	// State is the sequence's state, parsed.
	State State
	// Tail keeps the last, incomplete page too, unless the store is exact.
	Tail bool
}

// errNoRoom stands for a page that found no room in the host tier.
var errNoRoom = errors.New("the host tier of context pages is full of pages in use")

// want is a page by its exact key, and where its cells are in the sequence.
type want struct {
	space  Space
	prev   link
	link   link
	index  int
	from   int
	tokens []int32
}

func (w want) name() fileName { return nameOf(w.space, w.index, w.link.hash) }

// wantFull is full page i of a prompt.
func wantFull(space Space, p *Prompt, i int) want {
	return want{space: space, prev: p.link(i - 1), link: p.link(i), index: i, from: i * p.chain.page, tokens: p.pageTokens(i)}
}

// wantTail is the incomplete page after a run of full ones that ends at a token.
func wantTail(space Space, p *Prompt, end int) want {
	i, tokens := p.tail(end)
	prev := p.link(i - 1)
	return want{space: space, prev: prev, link: p.chain.link(prev, tokens), index: i, from: i * p.chain.page, tokens: tokens}
}

// Unsaved is how many pages of a sequence with that many cells Save would keep:
// when there are none, its state need not be read.
func (s *Store) Unsaved(p *Prompt, salt string, cells int, tail bool) int {
	return len(s.unsaved(p, salt, cells, tail))
}

func (s *Store) unsaved(p *Prompt, salt string, cells int, tail bool) []want {
	if s.off != "" {
		return nil
	}
	space, full := s.space(salt), cells/s.chain.page
	p.link(full - 1)
	var ends *want
	if tail && !s.chain.exact && cells%s.chain.page != 0 {
		w := wantTail(space, p, cells)
		ends = &w
	}
	var wants []want
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range full {
		if w := wantFull(space, p, i); !s.resident(w) {
			wants = append(wants, w)
		}
	}
	if ends != nil && !s.resident(*ends) {
		wants = append(wants, *ends)
	}
	return wants
}

func (s *Store) resident(w want) bool {
	e := s.index.find(w.space, w.link, w.index, w.tokens)
	return e != nil && e.host.block != nil
}

// Save keeps the pages of a sequence that are not in host memory yet, so that
// lookups find them from now on, and queues them for the disk. It returns how
// many it kept. When memory runs out, because everything is in use, the first
// pages are kept and the others are not, without an error.
func (s *Store) Save(r Save) (int, error) {
	if s.off != "" {
		return 0, nil
	}
	if !s.Fits(r.State.Layout) {
		return 0, fmt.Errorf("cannot keep pages of a state with another layout than the proven one")
	}
	if r.State.Cells > r.Prompt.Len() {
		return 0, fmt.Errorf("cannot keep pages of %d cells under %d tokens", r.State.Cells, r.Prompt.Len())
	}
	wants := s.unsaved(r.Prompt, r.Salt, r.State.Cells, r.Tail)
	blocks := make([]*block, 0, len(wants))
	var spans []span
	var err error
	for _, w := range wants {
		b := s.room(len(w.tokens))
		if b == nil {
			break
		}
		blocks = append(blocks, b)
		if spans, err = r.State.cutSpans(spans, w.from, w.from+len(w.tokens), b.mem); err != nil {
			break
		}
	}
	if err == nil {
		copySpans(spans)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make([]*entry, 0, len(blocks))
	for i, b := range blocks {
		if err != nil || s.closed {
			s.host.unfill(b)
			continue
		}
		if e := s.keep(wants[i], b); e != nil {
			kept = append(kept, e)
			s.enqueue(e)
		}
	}
	for _, e := range slices.Backward(kept) {
		s.host.unpin(e)
	}
	return len(kept), err
}

// keep makes a filled block a page that lookups find, pinned once. When somebody
// else was faster, the block is given back and there is no new page.
func (s *Store) keep(w want, b *block) *entry {
	e := s.index.find(w.space, w.link, w.index, w.tokens)
	if e != nil && e.host.block != nil {
		s.host.unfill(b)
		return nil
	}
	if e == nil {
		e = s.index.insert(w.space, w.prev, w.link, w.index, slices.Clone(w.tokens))
	}
	s.host.put(e, b)
	return e
}
