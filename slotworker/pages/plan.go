package pages

import (
	"context"
	"time"
)

// Query asks for the pages of a prompt.
type Query struct {
	Prompt *Prompt
	// Salt is the tenant's; empty means the slot's common pages.
	Salt string
}

// Plan is what a lookup found. Its pages stay in host memory until Release. It
// belongs to one goroutine at a time.
type Plan struct {
	// Tokens is how many of the prompt's first tokens the pages restore; always
	// less than the prompt has.
	Tokens int
	// DiskTokens is how many of them Load brought in from disk.
	DiskTokens int
	// Reason says why the pages after those were not found; it is empty when
	// every page that may be used was. Tell it to operators, and Reason.Public to
	// the owner of the request.
	Reason Reason
	// DivergedAt is the first token in which the prompt differs from the known
	// prompt that shares most tokens with it; -1 when there is none.
	DivergedAt int
	// More means that Load may find further pages on disk.
	More bool

	query   Query
	space   Space
	run     []*entry
	tail    *entry
	failed  Reason // of the page after run, found while loading
	held    int    // tokens that a sequence of the engine holds
	settled bool
}

// Outcome says what became of a plan.
type Outcome int

// The outcomes of a plan.
const (
	// Unused plans count for nothing: the request ended or looks up again.
	Unused Outcome = iota
	// Used plans were restored, or were empty and the prompt was computed.
	Used
	// Short plans did not restore: the engine took less than the state or counts
	// other tokens than the plan. The sequence has to be removed; the plan's pages
	// are set aside and never served again.
	Short
)

// Lookup finds the longest run of pages in host memory that a prompt may use. It
// does no I/O. When the plan says More, Load goes on.
func (s *Store) Lookup(q Query) *Plan {
	p := &Plan{query: q, space: s.space(q.Salt), DivergedAt: -1}
	if s.off != "" {
		p.Reason = ReasonArchNotReusable
		return p
	}
	q.Prompt.link(q.Prompt.FullPages() - 1) // hash before the mutex is taken
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.index.lookup(p.space, q.Prompt)
	for _, e := range m.run {
		if e.host.block == nil {
			break
		}
		s.host.pin(e)
		p.run = append(p.run, e)
	}
	if m.tail != nil && len(p.run) == len(m.run) && m.tail.host.block != nil {
		s.host.pin(m.tail)
		p.tail = m.tail
	}
	s.settle(p)
	return p
}

// settle works out what a plan's pages amount to.
func (s *Store) settle(p *Plan) {
	covered := p.covered(s.chain.page)
	p.Tokens = min(covered, max(0, p.query.Prompt.Len()-1))
	p.Reason, p.DivergedAt = s.index.miss(p.space, p.query.Prompt, len(p.run), p.tail)
	if p.failed != "" && p.Reason != "" {
		p.Reason = p.failed
	}
	p.More = s.disk != nil && !s.closed && p.Reason != ""
}

// Hold tells that a sequence of the engine still holds the prompt's first tokens,
// at least as many as the pages restore, so that nothing is restored.
func (p *Plan) Hold(tokens int) {
	p.Tokens, p.DiskTokens, p.held = tokens, 0, tokens
	c := p.query.Prompt.chain
	most := p.query.Prompt.Len() - 1
	if c.exact {
		most = most / c.page * c.page
	}
	switch {
	case tokens >= most:
		p.Reason, p.DivergedAt = "", -1
	case p.DivergedAt < tokens:
		p.DivergedAt = -1 // the sequence holds more than any page that is known
	}
}

// covered is how many of the prompt's tokens the plan has, also those that are
// computed again.
func (p *Plan) covered(page int) int {
	n := len(p.run) * page
	if p.tail != nil {
		n += len(p.tail.tokens)
	}
	return max(n, p.held)
}

// Pieces lists the plan's pages for Layout.Join, in order. Together they have
// Tokens cells.
func (p *Plan) Pieces() []Piece {
	pieces := make([]Piece, 0, len(p.run)+1)
	left := p.Tokens
	for e := range p.pages {
		use := min(left, len(e.tokens))
		if use == 0 {
			break
		}
		pieces = append(pieces, Piece{Payload: e.host.block.mem, Cells: len(e.tokens), Use: use})
		left -= use
	}
	return pieces
}

// pages goes through the plan's pages in order.
func (p *Plan) pages(yield func(*entry) bool) {
	for _, e := range p.run {
		if !yield(e) {
			return
		}
	}
	if p.tail != nil {
		yield(p.tail)
	}
}

// Release ends a plan and counts it by what became of it.
func (s *Store) Release(p *Plan, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.settled {
		return
	}
	p.settled = true
	s.tally(p, o)
	if p.tail != nil {
		s.leave(p.tail, o)
	}
	// The first page is the last one left, so that what others build on is
	// evicted after what is built on it.
	for i := len(p.run) - 1; i >= 0; i-- {
		s.leave(p.run[i], o)
	}
	p.run, p.tail = nil, nil
}

func (s *Store) leave(e *entry, o Outcome) {
	switch o {
	case Short:
		s.poison(e)
	case Used:
		s.markUsed(e)
		if !e.gone {
			s.enqueue(e) // a page that could not be written gets another chance
		}
	}
	s.host.unpin(e)
}

// tally counts the prompt's tokens: hits, misses and what had to be computed
// though a page covered it add up to all of them.
func (s *Store) tally(p *Plan, o Outcome) {
	all := int64(p.query.Prompt.Len())
	switch o {
	case Unused:
	case Short:
		s.count.missed[ReasonRestoreShort] += all
	case Used:
		missed := int64(0)
		if p.Reason != "" {
			missed = all - int64(p.covered(s.chain.page))
			s.count.missed[p.Reason] += missed
		}
		s.count.hitDevice += int64(p.held)
		s.count.hitDisk += int64(p.DiskTokens)
		s.count.hitHost += int64(p.Tokens - p.DiskTokens - p.held)
		s.count.recomputed += all - int64(p.Tokens) - missed
	}
}

// poison takes a page out of all tiers for good.
func (s *Store) poison(e *entry) {
	if e.gone {
		return
	}
	if e.disk.queued {
		s.unqueue(e)
	}
	if e.disk.on {
		s.discard(nameOf(e.space.Space, e.index, e.link.hash), ReasonRestoreShort)
		s.clearDisk(e)
	}
	s.index.remove(e)
	s.host.drop(e)
}

// markUsed keeps a page from being the oldest on disk while it is served from
// host memory.
func (s *Store) markUsed(e *entry) {
	now := time.Now()
	if !e.disk.on || e.gone || now.Sub(e.disk.touched) < touchEvery {
		return
	}
	e.disk.touched = now
	n := nameOf(e.space.Space, e.index, e.link.hash)
	s.do(func(context.Context) error { return s.disk.touch(n, now) })
}
