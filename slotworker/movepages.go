package slotworker

import (
	"fmt"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// tokens is the engine's own count of a sequence's tokens, which is noted for
// Status too.
func (s *scheduler) tokens(seq *sequence) int {
	n := s.engine.SeqTokens(seq.id)
	s.note(seq, n)
	return n
}

func (s *scheduler) note(seq *sequence, n int) {
	page := max(1, s.cfg.pages.page)
	s.counted.Add(int64(n - seq.counted))
	s.whole.Add(int64(n/page - seq.counted/page))
	seq.counted = n
}

// cutTo leaves the first n tokens in an idle sequence and nothing else. It gives
// how many there are then: none when the engine counts otherwise than the
// account, and -1 when the sequence cannot be cleaned.
func (s *scheduler) cutTo(seq *sequence, n int) int {
	have := s.tokens(seq)
	if have != seq.filled {
		s.cfg.logger.Error("an idle sequence holds other tokens than it should", "sequence", seq.id, "tokens", have, "should", seq.filled)
		n = 0
	}
	if have != n && n > 0 && (!s.engine.SeqRemove(seq.id, int32(n), -1) || s.tokens(seq) != n) {
		s.cfg.logger.Error("an idle sequence could not be cut", "sequence", seq.id, "tokens", n)
		n = 0
	}
	if n == 0 && seq.counted != 0 && (!s.engine.SeqRemove(seq.id, 0, -1) || s.tokens(seq) != 0) {
		return -1
	}
	return n
}

// restore brings a plan's pages into a sequence, unless it holds that much of the
// prompt already. A request whose pages cannot be restored computes its whole prompt.
func (s *scheduler) restore(seq *sequence, plan *pages.Plan, held int) error {
	if plan == nil {
		return nil
	}
	if held > 0 {
		plan.Hold(held)
	}
	r := seq.req
	r.missReason, r.divergedAt = string(plan.Reason.Public()), max(0, plan.DivergedAt)
	outcome := pages.Used
	if held == 0 && plan.Tokens > 0 {
		if err := s.join(seq, plan); err != nil {
			s.cfg.logger.Error("context pages were not restored", "sequence", seq.id, "tokens", plan.Tokens, "error", err)
			outcome = pages.Short
		}
	}
	s.store.Release(plan, outcome)
	if outcome == pages.Short {
		r.missReason, r.divergedAt = string(pages.ReasonRestoreShort), 0
		if !s.engine.SeqRemove(seq.id, 0, -1) || s.tokens(seq) != 0 {
			return shared.Errorf(shared.KindEngine, "sequence %d could not be cleared after a failed restore", seq.id)
		}
		return nil
	}
	r.cached, seq.filled = plan.Tokens, plan.Tokens
	s.kvTokens.Add(int64(plan.Tokens))
	return nil
}

func (s *scheduler) join(seq *sequence, plan *pages.Plan) error {
	blob, err := s.layout.Join(s.blob, int(seq.id), plan.Pieces())
	if err != nil {
		return err
	}
	s.blob = blob
	if read := s.engine.StateSet(seq.id, blob); read != len(blob) {
		return fmt.Errorf("the engine took %d of %d bytes", read, len(blob))
	}
	if n := s.tokens(seq); n != plan.Tokens {
		return fmt.Errorf("the engine counts %d tokens instead of %d", n, plan.Tokens)
	}
	return nil
}

// keep stores the pages of a running sequence that are not stored yet, and lets
// those go on who waited for them.
func (s *scheduler) keep(seq *sequence) {
	r := seq.req
	if r.pages == nil || s.store.Off() != "" {
		return
	}
	cells, tail := seq.filled, !seq.prefilling() && !s.cfg.pages.exact
	if s.cfg.pages.exact {
		cells = s.lasting(seq)
	}
	if !s.save(seq, r.pages, cells, tail) || r.id == 0 {
		return
	}
	if !tail {
		cells = cells / s.cfg.pages.page * s.cfg.pages.page
	}
	s.resume(s.flights.Stored(r.id, cells))
}

// sink stores what an idle sequence holds and the host tier no longer does.
func (s *scheduler) sink(seq *sequence) {
	if seq.rested != nil {
		s.save(seq, seq.rested, seq.filled, true)
	}
}

// moveDown stores what all idle sequences hold.
func (s *scheduler) moveDown() {
	for _, seq := range s.sequences {
		s.sink(seq)
	}
}

// save makes sure that the pages of a sequence are stored, and reports whether
// they are. The state is read whole, which costs about a thousandth of computing
// it, and only when there is something to store.
func (s *scheduler) save(seq *sequence, prompt *pages.Prompt, cells int, tail bool) bool {
	salt := s.cfg.pages.salt
	if s.store.Unsaved(prompt, salt, cells, tail) == 0 {
		return true
	}
	if err := s.cut(seq, prompt, cells, tail); err != nil {
		s.cfg.logger.Error("context pages were not kept", "sequence", seq.id, "tokens", cells, "error", err)
		return false
	}
	return s.store.Unsaved(prompt, salt, cells, tail) == 0
}

func (s *scheduler) cut(seq *sequence, prompt *pages.Prompt, cells int, tail bool) error {
	size := s.engine.StateSize(seq.id)
	if cap(s.blob) < size {
		s.blob = make([]byte, size)
	}
	s.blob = s.blob[:size]
	if wrote := s.engine.StateGet(seq.id, s.blob); wrote != size {
		return fmt.Errorf("the engine wrote %d of %d bytes", wrote, size)
	}
	state, err := pages.ParseState(s.blob)
	if err != nil {
		return err
	}
	if state.Cells != seq.filled || state.Sequence != int(seq.id) {
		return fmt.Errorf("the state is of sequence %d with %d tokens instead of %d", state.Sequence, state.Cells, seq.filled)
	}
	state.Cells = cells
	_, err = s.store.Save(pages.Save{Prompt: prompt, Salt: s.cfg.pages.salt, State: state, Tail: tail})
	return err
}

// pageStats is the account of pages for Status.
func (s *scheduler) pageStats() shared.PageStats {
	p := storeStats(s.store)
	p.PrefilledTokens = s.cfg.kept.prefilled.Load()
	if p.Off == "" {
		p.IdleTokens = s.idle.Load()
		p.Device = shared.PageTier{Pages: int(s.whole.Load()), Bytes: s.counted.Load() * int64(s.layout.CellBytes())}
	}
	return p
}
