package slotworker

import (
	"sync"

	"github.com/firstframe/firstframe/shared"
)

// outcome is how the scheduler ended a request.
type outcome struct {
	result shared.Result
	err    error
}

// mailbox hands a request's output from the scheduler to the request's own
// goroutine. Put never blocks: a consumer that lags gets several tokens in one
// chunk, so what waits is bounded by the answer's length.
type mailbox struct {
	mu      sync.Mutex
	text    []byte // text, tokens and phases that have not been taken yet
	tokens  []int32
	probs   []shared.TokenLogprob
	phases  *shared.Phases
	usage   *shared.Usage // comes with the phases
	end     *outcome
	ready   chan struct{} // holds one signal while there is something to take
	emitted chan struct{} // closed once the first chunk has been handed on
	ended   chan struct{} // closed once the end has been put
}

func newMailbox() *mailbox {
	return &mailbox{ready: make(chan struct{}, 1), emitted: make(chan struct{}), ended: make(chan struct{})}
}

// put adds a chunk. Only the first text chunk of a request carries phases.
func (m *mailbox) put(c shared.Chunk) {
	m.mu.Lock()
	m.text = append(m.text, c.Text...)
	m.tokens = append(m.tokens, c.Tokens...)
	m.probs = append(m.probs, c.Logprobs...)
	if c.Phases != nil {
		m.phases, m.usage = c.Phases, c.Usage
	}
	m.mu.Unlock()
	m.signal()
}

// finish puts the end. Nothing may be put after it.
func (m *mailbox) finish(o outcome) {
	m.mu.Lock()
	m.end = &o
	m.mu.Unlock()
	close(m.ended)
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default: // the consumer has not come for the last one yet and will find both
	}
}

// take gives what has come in since the last take.
func (m *mailbox) take() (shared.Chunk, *outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := shared.Chunk{Text: string(m.text), Tokens: m.tokens, Phases: m.phases, Usage: m.usage, Logprobs: m.probs}
	m.text, m.tokens, m.phases, m.usage, m.probs = m.text[:0], nil, nil, nil, nil
	return c, m.end
}
