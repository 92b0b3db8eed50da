package slotworker

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// stamps are the moments of one request in this process, in order. The
// intervals between them touch and never overlap, so the phases add up to the
// time from arrival to the first text.
type stamps struct {
	arrived   time.Time // the call came in
	preparing time.Time // templating and tokenizing began
	prepared  time.Time // … and ended; the request went to the scheduler
	granted   time.Time // a sequence was free
	bound     time.Time // the sequence was clean and this request's own
	lookedUp  time.Time // context pages were bound or missed
	prefilled time.Time // the logits of the last prompt token were there
	first     time.Time // the first text was ready
	ended     time.Time
}

// phases splits the time up to first, or up to the end of a request that never
// had text. Templating and tokenizing count as context lookup: they are what it
// takes to know which context the request is about. They run before the request
// queues, so that a prompt that is too long is refused at once.
func (s *stamps) phases() shared.Phases {
	first := s.first
	if first.IsZero() {
		first = s.ended
	}
	return shared.Phases{
		Queue:            s.preparing.Sub(s.arrived) + s.granted.Sub(s.prepared),
		SlotActivation:   s.bound.Sub(s.granted),
		ContextLookup:    s.prepared.Sub(s.preparing) + s.lookedUp.Sub(s.bound),
		Prefill:          s.prefilled.Sub(s.lookedUp),
		DecodeFirstToken: first.Sub(s.prefilled),
	}
}
