package shared

import "time"

// Phase is one named part of the time to the first chunk.
type Phase string

// The phases of a request, in order.
const (
	PhaseRoute            Phase = "route"
	PhaseQueue            Phase = "queue"
	PhaseSlotActivation   Phase = "slot_activation"
	PhaseContextLookup    Phase = "context_lookup"
	PhasePrefill          Phase = "prefill"
	PhaseDecodeFirstToken Phase = "decode_first_token"
	PhaseFirstChunkFlush  Phase = "first_chunk_flush"
	PhaseOther            Phase = "other"
)

// Phases is how long each phase took. Every duration was measured inside one
// process; the intervals nest and never overlap, so they add up.
type Phases struct {
	Route            time.Duration
	Queue            time.Duration
	SlotActivation   time.Duration
	ContextLookup    time.Duration
	Prefill          time.Duration
	DecodeFirstToken time.Duration
	FirstChunkFlush  time.Duration
	Other            time.Duration
}

// PhaseDuration is one phase with its length.
type PhaseDuration struct {
	Phase    Phase
	Duration time.Duration
}

// List gives the phases in the order in which a request passes them.
func (p Phases) List() []PhaseDuration {
	return []PhaseDuration{
		{PhaseRoute, p.Route},
		{PhaseQueue, p.Queue},
		{PhaseSlotActivation, p.SlotActivation},
		{PhaseContextLookup, p.ContextLookup},
		{PhasePrefill, p.Prefill},
		{PhaseDecodeFirstToken, p.DecodeFirstToken},
		{PhaseFirstChunkFlush, p.FirstChunkFlush},
		{PhaseOther, p.Other},
	}
}

// Sum adds all phases, other included.
func (p Phases) Sum() time.Duration {
	var sum time.Duration
	for _, d := range p.List() {
		sum += d.Duration
	}
	return sum
}

// Plus adds two sets of phases, one by one. A hop uses it to put its own
// durations beside those of the process behind it.
func (p Phases) Plus(q Phases) Phases {
	return Phases{
		Route:            p.Route + q.Route,
		Queue:            p.Queue + q.Queue,
		SlotActivation:   p.SlotActivation + q.SlotActivation,
		ContextLookup:    p.ContextLookup + q.ContextLookup,
		Prefill:          p.Prefill + q.Prefill,
		DecodeFirstToken: p.DecodeFirstToken + q.DecodeFirstToken,
		FirstChunkFlush:  p.FirstChunkFlush + q.FirstChunkFlush,
		Other:            p.Other + q.Other,
	}
}

// Close ends the account at the edge: other becomes what the named phases leave
// of the whole time to the first chunk.
func (p Phases) Close(firstChunk time.Duration) Phases {
	p.Other = 0
	p.Other = firstChunk - p.Sum()
	return p
}

// MS gives the phases in milliseconds under their JSON names.
func (p Phases) MS() map[string]float64 {
	ms := make(map[string]float64, 8)
	for _, d := range p.List() {
		ms[string(d.Phase)] = Milliseconds(d.Duration)
	}
	return ms
}

// Milliseconds converts without rounding to whole units.
func Milliseconds(d time.Duration) float64 {
	return float64(d) / float64(time.Millisecond)
}

// PhaseGroup is one of the four runtime phases that people see as colours.
type PhaseGroup string

// The four runtime phases; other belongs to none.
const (
	GroupSlot       PhaseGroup = "slot"
	GroupActivation PhaseGroup = "activation"
	GroupContext    PhaseGroup = "context"
	GroupDelivery   PhaseGroup = "delivery"
)

// Group says which runtime phase a phase belongs to; it is empty for other.
func (p Phase) Group() PhaseGroup {
	switch p {
	case PhaseRoute, PhaseQueue:
		return GroupSlot
	case PhaseSlotActivation:
		return GroupActivation
	case PhaseContextLookup, PhasePrefill:
		return GroupContext
	case PhaseDecodeFirstToken, PhaseFirstChunkFlush:
		return GroupDelivery
	default:
		return ""
	}
}

// ActivationDetail splits a cold slot_activation into its parts.
type ActivationDetail struct {
	Spawn    time.Duration
	Prefetch time.Duration
	Transfer time.Duration
	Warmup   time.Duration
	Canary   time.Duration
}
