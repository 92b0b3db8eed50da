package pages

import "slices"

// RequestID names a request to Inflight.
type RequestID uint64

// Turn says what a request does next.
type Turn struct {
	// Wait is false for a request that computes its prompt now, from what pages cover.
	Wait bool
	// For is the earlier request that computes what this one needs too, and Until
	// the number of tokens that have to be stored as pages before the wait ends.
	For   RequestID
	Until int
}

// Inflight decides who computes a common prefix of prompts that are in work at
// the same time. A request waits for an earlier one as long as that one is still
// to store pages which it could use; nobody waits for a later one, so there is
// always one that does not wait. A waiting request holds nothing of the engine:
// it gets a sequence, and is charged for the whole of its prompt, when it goes
// on and restores all pages at once.
//
// Every request whose wait is over, for whatever reason, looks up its pages
// again and asks Again for its turn. A leader that fails or is cancelled has
// stored some of its pages; of those who waited for it the first to arrive then
// computes the rest and the others wait for that one.
//
// It is a pure state machine without a clock or a lock; its owner calls it.
type Inflight struct {
	page    int
	tails   bool
	flights []*flight // in order of arrival
}

// flight is one request whose prefill is not over.
type flight struct {
	id     RequestID
	salt   string
	prompt []int32
	stored int // tokens of it that are stored as pages
	on     *flight
	until  int
}

// NewInflight makes an empty one. Tails says that lookups use incomplete pages,
// as they do unless they are exact.
func NewInflight(pageTokens int, tails bool) *Inflight {
	return &Inflight{page: pageTokens, tails: tails}
}

// Join adds a request, of whose prompt pages already cover some tokens.
func (f *Inflight) Join(id RequestID, prompt *Prompt, salt string, covered int) Turn {
	r := &flight{id: id, salt: salt, prompt: prompt.tokens}
	f.flights = append(f.flights, r)
	return f.turn(r, covered)
}

// Again decides anew for a request that was let go, with what a new lookup covers.
func (f *Inflight) Again(id RequestID, covered int) Turn {
	return f.turn(f.find(id), covered)
}

// Stored tells that the first tokens of a request's prompt are stored as pages,
// and returns the requests whose wait is over, in order of arrival.
func (f *Inflight) Stored(id RequestID, tokens int) []RequestID {
	r := f.find(id)
	r.stored = max(r.stored, tokens)
	return f.release(func(w *flight) bool { return w.on == r && w.until <= r.stored })
}

// Leave removes a request whose prefill is over, however it ended, and returns
// those who still waited for it, in order of arrival.
func (f *Inflight) Leave(id RequestID) []RequestID {
	r := f.find(id)
	f.flights = slices.DeleteFunc(f.flights, func(o *flight) bool { return o == r })
	return f.release(func(w *flight) bool { return w.on == r })
}

// Waiting is how many requests wait for another.
func (f *Inflight) Waiting() int {
	n := 0
	for _, r := range f.flights {
		if r.on != nil {
			n++
		}
	}
	return n
}

func (f *Inflight) find(id RequestID) *flight {
	i := slices.IndexFunc(f.flights, func(r *flight) bool { return r.id == id })
	return f.flights[i]
}

func (f *Inflight) release(over func(*flight) bool) []RequestID {
	var ids []RequestID
	for _, w := range f.flights {
		if over(w) {
			w.on, w.until = nil, 0
			ids = append(ids, w.id)
		}
	}
	return ids
}

// turn lets a request wait for the earlier one that will store the most of what
// it needs and does not have.
func (f *Inflight) turn(r *flight, covered int) Turn {
	r.on, r.until = nil, covered
	for _, o := range f.flights {
		if o == r {
			break
		}
		if n := f.useful(o, r); o.salt == r.salt && n > r.until && n > o.stored {
			r.on, r.until = o, n
		}
	}
	if r.on == nil {
		return Turn{}
	}
	return Turn{Wait: true, For: r.on.id, Until: r.until}
}

// useful is how many tokens of r's prompt the pages of o will cover.
func (f *Inflight) useful(o, r *flight) int {
	n := common(o.prompt, r.prompt)
	if f.tails && n == len(o.prompt) {
		return n
	}
	return n / f.page * f.page
}
