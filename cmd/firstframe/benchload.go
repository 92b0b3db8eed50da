package main

import (
	"context"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

// slotTarget is one slot, asked through a Frontend.
type slotTarget struct {
	frontend shared.Frontend
	slot     string
	// measured is told of each answer, when it is not nil.
	measured func(shared.Measured)
}

var _ bench.Target = slotTarget{}

// Ask implements bench.Target.
func (t slotTarget) Ask(ctx context.Context, q bench.Question) (bench.Sample, error) {
	req := shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: t.slot}, MaxTokens: q.MaxTokens, IgnoreEOS: true,
	}
	if q.System != "" {
		req.Messages = append(req.Messages, shared.Message{Role: "system", Content: q.System})
	}
	req.Messages = append(req.Messages, shared.Message{Role: "user", Content: q.Text})
	m, err := shared.GenerateAtEdge(ctx, t.frontend, time.Now(), req, func(shared.Chunk) error { return nil })
	if err != nil {
		return bench.Sample{}, err
	}
	if t.measured != nil {
		t.measured(m)
	}
	return bench.Sample{
		FirstChunk: m.FirstChunk, Full: m.FullResponse, Engine: m.Phases.Prefill + m.Phases.DecodeFirstToken, Phases: m.Phases.MS(),
		PromptTokens: m.Usage.PromptTokens, CachedTokens: m.Usage.CachedTokens, Tokens: m.Usage.CompletionTokens,
	}, nil
}

// The shared-prefix workload asks each prefix once, and then as often again.
const sharedRounds = 3

func (o *benchOptions) sharedPrefix(contextTokens int) bench.SharedPrefix {
	w := bench.SharedPrefix{Prefixes: 16, PrefixTokens: 384, QuestionTokens: 32, Rounds: sharedRounds, MaxTokens: o.tokens}
	if contextTokens == 0 {
		return w
	}
	return w.Scaled(contextTokens)
}

func concurrencies() []int { return []int{1, 2, 4, 8, 16} }

// openLoads are the rates of the open loop, in parts of what eight clients that
// wait for their answers get done.
func openLoads() []float64 { return []float64{0.5, 0.8, 0.95} }

func promptLengths() []int { return []int{16, 32, 64, 128, 256, 512, 1024, 1792} }

const (
	loadPrompt    = 64 // tokens of the prompts of loads
	loadTokens    = 32 // generated for each of them
	loadPerClient = 8
	openRequests  = 64
)

// loads measures one slot with workloads of many requests.
func (b *bencher) loads(ctx context.Context, f shared.Frontend, slot string, contextTokens int) error {
	target := slotTarget{frontend: f, slot: slot}
	prompts, err := bench.NewPrompts(ctx, b.o.seed, func(ctx context.Context, text string) (int, error) {
		tokens, err := f.Tokenize(ctx, shared.TokenizeRequest{Requirement: shared.Requirement{SlotID: slot}, Text: text})
		return len(tokens), err
	})
	if err != nil {
		return err
	}
	for _, q := range prompts.Unique(-b.o.warmUp, b.o.warmUp, loadPrompt, b.o.tokens) {
		if _, err := target.Ask(ctx, q); err != nil {
			return err
		}
	}
	b.seeVariant(ctx, f, slot)
	for _, step := range []struct {
		want string
		run  func(context.Context, slotTarget, *bench.Prompts, int) error
	}{
		{wantShared, b.shared}, {wantConcurrency, b.concurrency}, {wantOpenLoop, b.openLoop}, {wantLength, b.length},
	} {
		if !b.o.wants(step.want) {
			continue
		}
		b.bar.Describe(step.want)
		if err := step.run(ctx, target, prompts, contextTokens); err != nil {
			return fmt.Errorf("%s: %w", step.want, err)
		}
	}
	return nil
}

// shared asks conversations that share system prompts in turns.
func (b *bencher) shared(ctx context.Context, t slotTarget, p *bench.Prompts, contextTokens int) error {
	w := b.o.sharedPrefix(contextTokens)
	name := caseSharedFirst
	t.measured = func(m shared.Measured) { b.add(name, m) }
	for i, q := range p.Questions(100_000, w) {
		if i == w.Prefixes {
			name = caseSharedLater
		}
		if _, err := t.Ask(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// concurrency has more and more clients ask.
func (b *bencher) concurrency(ctx context.Context, t slotTarget, p *bench.Prompts, _ int) error {
	for i, clients := range concurrencies() {
		questions := p.Unique(200_000+10_000*i, clients*loadPerClient, loadPrompt, loadTokens)
		l, err := bench.ClosedLoop(ctx, fmt.Sprintf("clients_%d", clients), t, clients, questions)
		if err != nil {
			return err
		}
		b.doc.Loads = append(b.doc.Loads, l)
		_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
	}
	return nil
}

// openLoop sends requests at their times, at parts of the rate that eight
// clients reach which wait for their answers.
func (b *bencher) openLoop(ctx context.Context, t slotTarget, p *bench.Prompts, _ int) error {
	const clients = 8
	closed, err := bench.ClosedLoop(ctx, "open_loop_reference", t, clients, p.Unique(300_000, openRequests, loadPrompt, loadTokens))
	if err != nil {
		return err
	}
	b.doc.Loads = append(b.doc.Loads, closed)
	for i, part := range openLoads() {
		rate := part * float64(closed.Requests) / closed.Seconds
		questions := p.Unique(310_000+10_000*i, openRequests, loadPrompt, loadTokens)
		l, err := bench.OpenLoop(ctx, fmt.Sprintf("open_loop_%.0f%%", 100*part), t, rate, b.o.seed, questions)
		if err != nil {
			return err
		}
		b.doc.Loads = append(b.doc.Loads, l)
		_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
	}
	return nil
}

// length asks longer and longer prompts that are new.
func (b *bencher) length(ctx context.Context, t slotTarget, p *bench.Prompts, contextTokens int) error {
	first := bench.Curve{Case: "prompt_length_first_chunk", X: "prompt tokens", Unit: "ms"}
	over := bench.Curve{Case: "prompt_length_overhead", X: "prompt tokens", Unit: "ms"}
	for i, tokens := range promptLengths() {
		_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
		if tokens+tokens/8+b.o.tokens+48 > contextTokens {
			continue // with a margin for the template and for words of other lengths
		}
		var whole, rest []float64
		var sum int
		for _, q := range p.Unique(400_000+10_000*i, b.o.runs, tokens, 1) {
			s, err := t.Ask(ctx, q)
			if err != nil {
				return err
			}
			sum += s.PromptTokens
			whole, rest = append(whole, shared.Milliseconds(s.FirstChunk)), append(rest, shared.Milliseconds(s.FirstChunk-s.Engine))
		}
		x := float64(sum / b.o.runs)
		first.Points = append(first.Points, bench.Point{X: x, Value: bench.SpreadOf(whole)})
		over.Points = append(over.Points, bench.Point{X: x, Value: bench.SpreadOf(rest)})
	}
	b.doc.Curves = append(b.doc.Curves, first, over)
	return nil
}
