package slotworker

import (
	"slices"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// release ends a sequence's request, whose KV memory is known to be right. Its
// pages are kept, and what the sequence holds stays on the device until another
// request takes the sequence.
func (s *scheduler) release(seq *sequence, o outcome) {
	s.keep(seq)
	n := s.lasting(seq)
	if n == 0 || n < seq.filled && !s.engine.SeqRemove(seq.id, int32(n), -1) || s.tokens(seq) != n {
		s.clear(seq, o)
		return
	}
	r := s.part(seq)
	s.device.Rest(seq.id, r.pages, s.cfg.pages.salt, n)
	seq.rested, seq.filled = r.pages, n
	s.idle.Add(int64(n))
	s.finish(r, o)
}

// lasting is how many of a sequence's tokens a later request may go on from.
// What decoding computed, and tails, are other numbers than a prefill's.
func (s *scheduler) lasting(seq *sequence) int {
	r := seq.req
	switch {
	case r.pages == nil || s.store.Off() != "":
		return 0
	case s.cfg.pages.exact:
		return min(seq.filled, len(r.prompt)) / s.cfg.pages.page * s.cfg.pages.page
	default:
		return seq.filled
	}
}

// lose ends a request whose KV memory is not known to be right.
func (s *scheduler) lose(seq *sequence, err error) { s.clear(seq, outcome{err: err}) }

// clear ends a sequence's request and leaves nothing of it. The sequence is clean
// before the caller hears of the end; one that cannot be cleaned is never used again.
func (s *scheduler) clear(seq *sequence, o outcome) {
	if !s.engine.SeqRemove(seq.id, 0, -1) || s.tokens(seq) != 0 {
		s.giveUp(seq)
	} else {
		s.device.Clear(seq.id)
	}
	r := s.part(seq)
	seq.rested, seq.filled = nil, 0
	s.finish(r, o)
}

// giveUp leaves a sequence taken for ever, and out of the account.
func (s *scheduler) giveUp(seq *sequence) {
	s.usable.Add(-1)
	s.note(seq, 0)
	s.cfg.logger.Error("a sequence could not be cleared and is given up", "sequence", seq.id)
}

// part takes the request out of its sequence.
func (s *scheduler) part(seq *sequence) *request {
	s.admitted = slices.DeleteFunc(s.admitted, func(other *sequence) bool { return other == seq })
	r := seq.req
	seq.req = nil
	s.kvTokens.Add(-int64(seq.filled))
	s.running.Add(-1)
	return r
}

// finish ends a request for good.
func (s *scheduler) finish(r *request, o outcome) {
	r.sampler.Close()
	s.land(r)
	if r.plan != nil {
		s.store.Release(r.plan, pages.Unused)
	}
	s.inSystem.Add(-1)
	r.box.finish(o)
}

// endAll ends everything that is still here when the scheduler does, and moves
// down what the sequences hold.
func (s *scheduler) endAll() {
	ending := outcome{err: shared.Errorf(shared.KindShuttingDown, "the slot was evicted")}
	for len(s.admitted) > 0 {
		s.release(s.admitted[0], ending)
	}
	for _, r := range slices.Concat(s.waiting, s.following) {
		s.finish(r, ending)
	}
	s.waiting, s.following = nil, nil
	for {
		select {
		case r := <-s.inbox:
			s.finish(r, ending)
		default:
			s.moveDown()
			return
		}
	}
}
