package slotworker

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// request is one request as the scheduler knows it: tokens in, chunks out. Once
// submitted it belongs to the scheduler, which closes the sampler and always
// finishes the mailbox.
type request struct {
	ctx       context.Context
	prompt    []int32
	sampler   Sampler
	maxTokens int // 0 means until the context is full
	stop      []string
	ignoreEOS bool
	logprobs  bool
	top       int                // alternatives in each place
	grammar   constraint         // nil when the answer is free
	piece     func(int32) []byte // a token's text, when it is not the model's own
	think     *thinkSplitter     // counts what is thought; nil when nothing is
	thought   int                // tokens
	stamps    stamps
	box       *mailbox

	pages *pages.Prompt // nil when pages are neither looked up nor kept
	plan  *pages.Plan   // pages brought in from disk before the request queued
	id    pages.RequestID

	cached     int
	missReason string
	divergedAt int
}

// sequence is one place in the KV memory and the request that runs in it.
type sequence struct {
	id     int32
	req    *request // nil while idle
	filled int      // positions in KV memory

	rested  *pages.Prompt // what an idle sequence holds; nil when it is empty
	counted int           // positions by the engine's own count

	next   int32                 // sampled, not in KV memory yet
	answer int                   // tokens sampled
	unsent []int32               // tokens that no chunk has carried yet
	probs  []shared.TokenLogprob // of unsent, when asked for
	start  int                   // of the first unsent token in the answer's bytes
	sent   int                   // bytes of text handed out
	text   *textStream
	shown  bool // the first text has been delivered
}

func (s *sequence) prefilling() bool { return s.filled < len(s.req.prompt) }

// accepted takes in one sampled token; its account, when one is wanted, is in
// probs by then. The finish reason is empty while the request goes on.
func (s *sequence) accepted(token int32, m Model, contextTokens int) (c shared.Chunk, finish string) {
	if m.IsEOG(token) && !s.req.ignoreEOS {
		return s.chunk(s.text.finish(), true), shared.FinishStop
	}
	s.next = token
	s.answer++
	s.unsent = append(s.unsent, token)
	piece := s.piece(token, m)
	if s.req.think != nil && s.req.think.counts(piece) {
		s.req.thought++
	}
	text := s.text.push(piece)
	switch {
	case s.text.stopped, s.req.grammar != nil && s.req.grammar.Finished():
		finish = shared.FinishStop
	case s.answer == s.req.maxTokens, len(s.req.prompt)+s.answer >= contextTokens:
		finish = shared.FinishLength
	}
	if finish != "" {
		text += s.text.finish()
	}
	return s.chunk(text, finish != ""), finish
}

func (s *sequence) piece(token int32, m Model) []byte {
	if s.req.piece != nil {
		return s.req.piece(token)
	}
	return m.Piece(token, false)
}

// chunk makes the next chunk. It is empty while there is no text, unless this
// is the last one, which carries the tokens that gave none.
func (s *sequence) chunk(text string, last bool) shared.Chunk {
	if text == "" && !last {
		return shared.Chunk{}
	}
	s.sent += len(text)
	c := shared.Chunk{Text: text, Tokens: s.unsent, Logprobs: s.shownProbs()}
	s.unsent, s.probs = nil, nil
	if text != "" && !s.shown {
		s.shown = true
		s.req.stamps.first = time.Now()
		phases := s.req.stamps.phases()
		c.Phases, c.Usage = &phases, &shared.Usage{PromptTokens: len(s.req.prompt), CachedTokens: s.req.cached}
	}
	return c
}

// shownProbs are the accounts of the unsent tokens. Once a stop string has ended
// the text, tokens that lie wholly behind the end are left out.
func (s *sequence) shownProbs() []shared.TokenLogprob {
	for i, p := range s.probs {
		if s.text.stopped && s.start >= s.sent {
			return s.probs[:i]
		}
		s.start += len(p.Bytes)
	}
	return s.probs
}

// result is the account of a request that ended well.
func (s *sequence) result(finish string) shared.Result {
	st := &s.req.stamps
	st.ended = time.Now()
	return shared.Result{
		FinishReason: finish,
		Usage: shared.Usage{
			PromptTokens: len(s.req.prompt), CachedTokens: s.req.cached, CompletionTokens: s.answer, ReasoningTokens: s.req.thought,
		},
		Phases:     st.phases(),
		SlotHit:    true,
		Prompt:     st.prefilled.Sub(st.lookedUp),
		Predicted:  st.ended.Sub(st.prefilled),
		MissReason: s.req.missReason,

		DivergedAtToken: s.req.divergedAt,
		StopString:      s.text.stoppedBy,
	}
}
