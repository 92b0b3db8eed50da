package slotworker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// dropGone ends the requests whose callers have left or whose deadline has
// passed. The others keep their rows.
func (s *scheduler) dropGone() {
	var gone []*request
	left := func(r *request) bool {
		if r.ctx.Err() == nil {
			return false
		}
		gone = append(gone, r)
		return true
	}
	s.waiting = slices.DeleteFunc(s.waiting, left)
	s.following = slices.DeleteFunc(s.following, left)
	for _, r := range gone {
		s.finish(r, outcome{err: context.Cause(r.ctx)})
	}
	for i := len(s.admitted) - 1; i >= 0; i-- {
		seq := s.admitted[i]
		if seq.req.ctx.Err() != nil {
			s.release(seq, outcome{err: context.Cause(seq.req.ctx)})
		}
	}
}

// place is where a request is to run: a sequence, how many tokens of the prompt
// it holds already, and the pages that were found.
type place struct {
	seq  *sequence
	held int
	plan *pages.Plan
}

// admit gives idle sequences to waiting requests, first come first served.
func (s *scheduler) admit() {
	for s.device.Spare() >= 0 {
		r, at := s.next()
		if r == nil {
			break
		}
		r.stamps.granted = time.Now()
		s.bind(r, at)
	}
	if s.usable.Load() > 0 {
		return
	}
	for _, r := range slices.Concat(s.waiting, s.following) {
		s.finish(r, outcome{err: shared.Errorf(shared.KindEngine, "no sequence of the slot can be used any more")})
	}
	s.waiting, s.following = nil, nil
}

// bind gives a sequence to a request: nothing of another prompt is left in it,
// and the pages of this one are. When the sequence cannot be cleaned the request
// looks for another one.
func (s *scheduler) bind(r *request, at place) {
	seq := at.seq
	if at.held < seq.filled {
		s.sink(seq)
	}
	s.device.Take(seq.id)
	s.idle.Add(-int64(seq.filled))
	held := s.cutTo(seq, at.held)
	if held < 0 {
		if at.plan != nil {
			s.store.Release(at.plan, pages.Unused)
		}
		s.giveUp(seq)
		seq.rested, seq.filled = nil, 0
		s.waiting = append([]*request{r}, s.waiting...)
		return
	}
	*seq = sequence{id: seq.id, req: r, text: newTextStream(r.stop), counted: seq.counted}
	s.admitted = append(s.admitted, seq)
	s.running.Add(1)
	r.stamps.bound = time.Now()
	err := s.restore(seq, at.plan, held)
	r.stamps.lookedUp = time.Now()
	if err != nil {
		s.lose(seq, err)
	}
}

// next takes the first waiting request that runs now, and says where.
// Requests whose prompt an earlier one is computing are set aside for its pages.
func (s *scheduler) next() (*request, place) {
	for len(s.waiting) > 0 {
		r := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		if r.pages == nil {
			return r, place{seq: s.sequences[s.device.Spare()]}
		}
		at := s.choose(r)
		if s.store.Off() != "" || !s.turn(r, at).Wait {
			return r, at
		}
		s.store.Release(at.plan, pages.Unused)
		s.following = append(s.following, r)
	}
	return nil, place{}
}

// choose finds the place for a request. It goes on in a sequence that still holds
// as much of the prompt as the pages in memory would restore, as the next turn
// of a conversation does, unless that throws away most of what the sequence
// holds and is no gain: restoring costs a thousandth of computing, and the
// sequence may soon be gone on from itself. Otherwise it takes the sequence that
// has been idle for the longest time.
func (s *scheduler) choose(r *request) place {
	at := place{seq: s.sequences[s.device.Spare()], plan: s.lookUp(r)}
	if id, n := s.device.Best(r.pages, s.cfg.pages.salt); n > 0 && n >= at.plan.Tokens {
		seq := s.sequences[id]
		if seq == at.seq || 2*n >= seq.filled || n-at.plan.Tokens >= s.cfg.pages.page {
			at.seq, at.held = seq, n
		}
	}
	return at
}

func (s *scheduler) turn(r *request, at place) pages.Turn {
	covered := max(at.plan.Tokens, at.held)
	if at.plan.Reason == "" {
		covered = len(r.prompt) // nothing that somebody else computes could add to it
	}
	if r.id != 0 {
		return s.flights.Again(r.id, covered)
	}
	s.lastID++
	r.id = s.lastID
	return s.flights.Join(r.id, r.pages, s.cfg.pages.salt, covered)
}

// land takes a request that no longer prefills out of the flights.
func (s *scheduler) land(r *request) {
	if r.id == 0 {
		return
	}
	s.resume(s.flights.Leave(r.id))
	r.id = 0
}

// resume puts requests whose wait is over in front of those that were not looked
// at yet, in order of arrival.
func (s *scheduler) resume(ids []pages.RequestID) {
	if len(ids) == 0 {
		return
	}
	var ready []*request
	s.following = slices.DeleteFunc(s.following, func(r *request) bool {
		over := slices.Contains(ids, r.id)
		if over {
			ready = append(ready, r)
		}
		return over
	})
	s.waiting = append(ready, s.waiting...)
	slices.SortStableFunc(s.waiting, func(a, b *request) int {
		return cmp.Compare(a.id-1, b.id-1) // those without an id last: it wraps around
	})
}
