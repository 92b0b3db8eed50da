package shared

import "time"

// The ways in which a request ends.
const (
	OutcomeDone      = "done"
	OutcomeError     = "error"
	OutcomeCancelled = "cancelled"
)

// RequestRecord is one request that has ended, as the supervisor saw it.
type RequestRecord struct {
	// Number counts the supervisor's requests, in the order in which they ended.
	Number    uint64
	RequestID string
	SlotID    string // empty when none was found
	Model     string
	Outcome   string
	Error     string // the kind of error, when there was one
	SlotHit   bool   // the slot was resident when the request came
	Usage     Usage
	// Phases add up to FirstChunk. They end with the supervisor handing on the
	// first text: what the client's own process adds to it is not known here.
	Phases Phases
	// FirstChunk is from the request's arrival to its first text, 0 without any.
	FirstChunk   time.Duration
	FullResponse time.Duration
	// Ago is how long before the answer the request ended.
	Ago time.Duration
}

// Activity is what requests have done lately.
type Activity struct {
	// Requests are the latest that have ended, oldest first.
	Requests []RequestRecord
	// Tokens is how many tokens each slot has generated since it was declared.
	Tokens map[string]int64
}
