package slotworker

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/firstframe/firstframe/shared"
)

// Generate runs one request. It returns when the request has ended or its
// caller has left; the scheduler drops its rows at the next step.
func (w *Worker) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	arrived := time.Now()
	r, ctx, end, err := w.begin(ctx, req.Identity, arrived, req.Deadline)
	if err != nil {
		return shared.Result{}, shared.AsError(err, "generate", w.owner.mirror.Load().slotID)
	}
	defer end()
	res, err := r.generate(ctx, req, arrived, emit)
	if err != nil {
		return shared.Result{}, shared.AsError(err, "generate", r.spec.SlotID)
	}
	res.SlotID, res.Model, res.Identity = r.spec.SlotID, r.spec.Model, r.identity
	return res, nil
}

// begin gives the resident model to a request, and a context that ends with the
// caller, at the deadline, or when the worker gives up its requests. The function
// that comes back ends the request.
func (w *Worker) begin(ctx context.Context, want shared.Identity, arrived time.Time, deadline time.Duration) (*resident, context.Context, func(), error) {
	r, err := w.acquire(want)
	if err != nil {
		return nil, nil, nil, err
	}
	if deadline == 0 {
		deadline = r.spec.Deadline
	}
	ctx, cancel := joinContexts(ctx, w.generating)
	ctx, cancelTimer := context.WithDeadlineCause(ctx, arrived.Add(deadline),
		shared.Errorf(shared.KindDeadline, "the request took longer than its deadline of %s", deadline))
	return r, ctx, func() {
		cancelTimer()
		cancel()
		w.release()
	}, nil
}

// acquire gives the resident model to a call that asks for its identity.
func (w *Worker) acquire(want shared.Identity) (*resident, error) {
	var r *resident
	var err error
	if askErr := w.owner.ask(func(s *slotState) { r, err = s.acquire() }); askErr != nil {
		return nil, askErr
	}
	if err != nil {
		return nil, err
	}
	if err := compareIdentity(r.identity, want); err != nil {
		w.release()
		return nil, err
	}
	return r, nil
}

func (w *Worker) release() {
	// The owner ends only after everybody has released.
	_ = w.owner.ask((*slotState).release)
}

// generate checks and tokenizes the request, gives it to the scheduler and
// hands on what comes back.
func (r *resident) generate(ctx context.Context, req shared.GenerateRequest, arrived time.Time, emit func(shared.Chunk) error) (shared.Result, error) {
	q := &request{
		ctx:       ctx,
		maxTokens: req.MaxTokens,
		stop:      req.Stop,
		ignoreEOS: req.IgnoreEOS,
		logprobs:  req.Logprobs,
		top:       req.TopLogprobs,
		box:       newMailbox(),
	}
	q.stamps.arrived = arrived
	if err := checkRequest(req); err != nil {
		return shared.Result{}, err
	}
	q.stamps.preparing = time.Now()
	var err error
	if q.prompt, err = r.promptTokens(ctx, req); err != nil {
		return shared.Result{}, err
	}
	think := r.thinks(req, q.prompt)
	if q.grammar, err = r.guide(req, think); err != nil {
		return shared.Result{}, err
	}
	if q.sampler, err = r.model.NewSampler(req.Sampling, q.prompt); err != nil {
		return shared.Result{}, err
	}
	r.scheduler.fetchPages(ctx, q)
	q.stamps.prepared = time.Now()
	parser := r.parser(req, think)
	if parser == nil {
		return r.await(q, emit)
	}
	q.piece = r.piece
	if think != nil {
		counting := *think
		q.think = &counting
	}
	return r.awaitParsed(q, parser, emit)
}

// await submits a request and emits its chunks until it ends.
func (r *resident) await(q *request, emit func(shared.Chunk) error) (shared.Result, error) {
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel() // the scheduler sees it at its next step
	q.ctx = ctx
	if err := r.scheduler.submit(q); err != nil {
		q.sampler.Close()
		r.scheduler.dropPlan(q)
		return shared.Result{}, err
	}
	first := true
	for {
		select {
		case <-q.box.ready:
		case <-ctx.Done():
			return shared.Result{}, context.Cause(ctx)
		}
		c, end := q.box.take()
		if c.Text != "" || len(c.Tokens) > 0 {
			c.SlotID = r.spec.SlotID
			if err := emit(c); err != nil {
				return shared.Result{}, shared.Errorf(shared.KindCancelled, "the answer could not be handed on: %w", err)
			}
			if first {
				close(q.box.emitted)
				first = false
			}
		}
		if end != nil {
			return end.result, end.err
		}
		if !first {
			r.scheduler.nextBeat(ctx, q.box)
		}
	}
}

// awaitParsed is await for an answer in which the model may think or call tools.
func (r *resident) awaitParsed(q *request, parser *answerParser, emit func(shared.Chunk) error) (shared.Result, error) {
	res, err := r.await(q, func(c shared.Chunk) error { return emit(parser.chunk(c)) })
	if err != nil {
		return res, err
	}
	if last := parser.end(); last.HasContent() {
		last.SlotID = r.spec.SlotID
		if err := emit(last); err != nil {
			return res, shared.Errorf(shared.KindCancelled, "the answer could not be handed on: %w", err)
		}
	}
	if parser.called() && res.FinishReason == shared.FinishStop {
		res.FinishReason = shared.FinishTools
	}
	return res, nil
}

// greedy gives the n most likely tokens after a prompt, ends of text included.
func (r *resident) greedy(ctx context.Context, prompt []int32, n int) ([]shared.TokenLogprob, error) {
	sampler, err := r.model.NewSampler(shared.Sampling{}, prompt)
	if err != nil {
		return nil, err
	}
	q := &request{ctx: ctx, prompt: prompt, sampler: sampler, maxTokens: n, ignoreEOS: true, logprobs: true, box: newMailbox()}
	var tokens []shared.TokenLogprob
	_, err = r.await(q, func(c shared.Chunk) error {
		tokens = append(tokens, c.Logprobs...)
		return nil
	})
	return tokens, err
}

// checkRequest refuses what no slot could serve.
func checkRequest(req shared.GenerateRequest) error {
	given := 0
	for _, set := range []bool{req.Prompt != "", len(req.Messages) > 0, len(req.PromptTokens) > 0} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return invalid("prompt", "the prompt is empty")
	case given > 1:
		return invalid("prompt", "only one of prompt, messages and prompt tokens may be given")
	case req.MaxTokens < 0:
		return invalid("max_tokens", "max_tokens cannot be negative")
	case req.Deadline < 0:
		return invalid("deadline", "the deadline cannot be negative")
	case req.TopLogprobs < 0 || req.TopLogprobs > shared.MaxTopLogprobs:
		return invalid("top_logprobs", "top_logprobs %d is not between 0 and %d", req.TopLogprobs, shared.MaxTopLogprobs)
	case req.Grammar != "" && req.IgnoreEOS:
		return invalid("grammar", "grammar and ignore_eos exclude each other: a grammar says where the text ends")
	case len(req.Tools) > 0 && (req.IgnoreEOS || len(req.Messages) == 0):
		return invalid("tools", "tools need messages, and cannot be used with ignore_eos")
	case req.TopLogprobs > 0 && !req.Logprobs:
		return invalid("top_logprobs", "top_logprobs needs logprobs")
	}
	for _, stop := range req.Stop {
		if stop == "" || !utf8.ValidString(stop) {
			return invalid("stop", "a stop string has to be UTF-8 and cannot be empty")
		}
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	err := shared.Errorf(shared.KindInvalid, format, args...)
	err.Field = field
	return err
}
