package proxy

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// form is how one API writes the answer to one request. Of a streamed answer it
// gives the events, of another one the body. Its methods are called one at a time.
type form interface {
	// id is the answer's name.
	id() string
	// delta is what a stream says of a piece of a choice.
	delta(index int, p piece) []event
	// finish is what a stream says when a choice has ended; the others may go on.
	finish(index int, m shared.Measured) []event
	// end is what a stream ends with once all choices have ended.
	end(results []shared.Measured) []event
	// failed ends a stream that cannot go on.
	failed(err error) []event
	// whole is the body of an answer in one piece.
	whole(results []shared.Measured, pieces []piece) any
}

// answerHead is what is known of an answer before it begins.
type answerHead struct {
	requestID string
	created   time.Time
	model     string // as it was asked for
	stream    bool
}

// piece is a part of one choice, or all of it. What is thought comes before what
// is said, and that before the calls.
type piece struct {
	reasoning string
	text      string
	probs     []shared.TokenLogprob
	calls     []shared.ToolCall
	prompt    shared.Usage // of the first piece
	first     bool
	offset    int // characters of the choice before this piece
}

// add appends what a chunk brings.
func (p *piece) add(c shared.Chunk) {
	p.reasoning += c.Reasoning
	p.text += c.Text
	p.probs = append(p.probs, c.Logprobs...)
	p.calls = append(p.calls, c.ToolCalls...)
	if c.Usage != nil {
		p.prompt = *c.Usage
	}
}
