package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
)

// Generate serves one request: resolve, route, lease, relay, release. It ends
// in a result, an error of kind KindCancelled, or any other error, within the
// request's deadline.
func (s *Supervisor) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	if err := validate(req); err != nil {
		return shared.Result{}, err
	}
	arrived := time.Now()
	out := &stream{emit: emit}
	res, err := s.generate(ctx, req, out)
	s.remember(out.record(req, arrived, res, err))
	return res, err
}

func (s *Supervisor) generate(ctx context.Context, req shared.GenerateRequest, out *stream) (shared.Result, error) {
	r := &request{
		op:          "generate",
		requirement: req.Requirement,
		identity:    req.Identity,
		onMiss:      req.OnMiss,
		deadline:    req.Deadline,
		progress: func(slotID string, p shared.Progress) error {
			return out.send(shared.Chunk{SlotID: slotID, Progress: &p})
		},
		started: func() bool { return out.started },
		prompt:  &req,
	}
	var res shared.Result
	err := s.serve(ctx, r, func(l *lease) error {
		req.Identity = r.target.identity
		out.phases = &r.phases
		var err error
		res, err = l.worker.Generate(l.ctx, req, func(c shared.Chunk) error { return out.relay(l, c) })
		if err == nil {
			err = checkIdentity(res.Identity, r.target.identity)
		}
		res.SlotID, res.Model = l.slot.spec.SlotID, l.slot.spec.Model
		return err
	})
	switch {
	case out.err != nil:
		return shared.Result{}, &shared.Error{Op: r.op, SlotID: res.SlotID, Kind: shared.KindCancelled, Message: "the client does not take the answer any more", Err: out.err}
	case err != nil:
		return shared.Result{}, err
	}
	res.Phases = r.phases.Plus(res.Phases)
	res.Activation, res.SlotHit = r.detail, r.hit
	return res, nil
}

// validate refuses what no worker could serve.
func validate(req shared.GenerateRequest) error {
	invalid := func(field, message string) error {
		return &shared.Error{Op: "generate", Kind: shared.KindInvalid, Field: field, Message: message}
	}
	given := 0
	for _, set := range []bool{req.Prompt != "", len(req.Messages) > 0, len(req.PromptTokens) > 0} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		return invalid("prompt", "exactly one of prompt, messages and prompt_tokens has to be given")
	case req.MaxTokens < 0:
		return invalid("max_tokens", "max_tokens is negative")
	case req.Deadline < 0:
		return invalid("deadline", "the deadline is negative")
	case req.TopLogprobs < 0 || req.TopLogprobs > shared.MaxTopLogprobs:
		return invalid("top_logprobs", fmt.Sprintf("top_logprobs %d is not between 0 and %d", req.TopLogprobs, shared.MaxTopLogprobs))
	case !validOnMiss(req.OnMiss):
		return invalid("on_miss", "on_miss can be wait, pending or fail")
	}
	if req.Grammar != "" {
		if _, err := gbnf.Parse(req.Grammar); err != nil {
			return invalid("grammar", err.Error())
		}
	}
	return nil
}

// stream is the answer on its way to the client.
type stream struct {
	emit    func(shared.Chunk) error
	err     error          // the first error of emit
	started bool           // a part of the answer went out
	text    bool           // and had text
	phases  *shared.Phases // of this process, known once a lease is held
	// The account at the first text, and when it had been handed on.
	known     shared.Phases
	firstText time.Time
}

func (st *stream) send(c shared.Chunk) error {
	if st.err == nil {
		st.err = st.emit(c)
	}
	return st.err
}

// relay hands on one chunk of the worker's. The first one with text gets the
// phases of this process added to the worker's.
func (st *stream) relay(l *lease, c shared.Chunk) error {
	c.SlotID = l.slot.spec.SlotID
	l.slot.tokens.Add(int64(len(c.Tokens)))
	first := c.HasContent() && !st.text
	if first {
		st.text = true
		p := *st.phases
		if c.Phases != nil {
			p = p.Plus(*c.Phases)
		}
		c.Phases, st.known = &p, p
	}
	if c.HasContent() || len(c.Tokens) > 0 {
		st.started = true
	}
	err := st.send(c)
	if first {
		st.firstText = time.Now()
	}
	return err
}
