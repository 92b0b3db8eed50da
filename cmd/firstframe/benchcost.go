package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

func slotCounts() []int { return []int{1, 10, 100, 1000, 10_000} }

func pageCounts() []int { return []int{100, 1000, 10_000, 100_000} }

// lookups is how often each lookup is timed; they are short.
const lookups = 2000

// costs measures what a streamed token costs, and what grows with the number of
// declared slots and known pages.
func (b *bencher) costs(ctx context.Context, dir string) error {
	state := filepath.Join(dir, "s")
	if b.o.wants(wantTokenCost) {
		b.bar.Describe(wantTokenCost)
		if err := b.tokenCosts(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", wantTokenCost, err)
		}
	}
	if b.o.wants(wantSlots) {
		b.bar.Describe(wantSlots)
		if err := b.slotCosts(ctx, state); err != nil {
			return fmt.Errorf("%s: %w", wantSlots, err)
		}
	}
	if b.o.wants(wantPages) {
		b.bar.Describe(wantPages)
		if err := b.pageCosts(ctx); err != nil {
			return fmt.Errorf("%s: %w", wantPages, err)
		}
	}
	return nil
}

// tokenCosts is the processor time of a supervisor, served as people serve it,
// for each token that goes through it.
func (b *bencher) tokenCosts(ctx context.Context, dir string) error {
	wide := b.spec
	wide.Parallel = b.o.parallel
	_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
	return withOwnServer(ctx, dir, []shared.SlotSpec{wide}, nil, func(s ownServer) error {
		p, err := bench.Recognise(ctx, s.url, "")
		if err == nil {
			err = p.Choose(wide.Model, "")
		}
		if err != nil {
			return err
		}
		prompts, err := bench.NewPrompts(ctx, b.o.seed, nil)
		if err != nil {
			return err
		}
		c := bench.Curve{Case: "supervisor_cpu_per_token", X: "clients", Unit: "µs"}
		const each = 8 // requests of a client
		for _, clients := range []int{1, b.o.parallel} {
			before := bench.CPUTime(s.pid)
			if before == 0 {
				return nil // the system does not tell
			}
			questions := prompts.Unique(500_000+clients*1000, clients*each, 16, wide.ContextTokens/2)
			l, err := bench.ClosedLoop(ctx, c.Case, p, clients, questions)
			if err != nil {
				return err
			}
			us := (bench.CPUTime(s.pid) - before) * 1e6 / (l.TokensPerSecond * l.Seconds)
			c.Points = append(c.Points, bench.Point{X: float64(clients), Value: bench.SpreadOf([]float64{us})})
		}
		b.doc.Curves = append(b.doc.Curves, c)
		return nil
	})
}

// slotCosts declares more and more slots and asks the last one.
func (b *bencher) slotCosts(ctx context.Context, state string) error {
	route := bench.Curve{Case: "slots_route", X: "declared slots", Unit: "ms"}
	resolve := bench.Curve{Case: "slots_resolve", X: "declared slots", Unit: "µs"}
	memory := bench.Curve{Case: "slots_memory", X: "declared slots", Unit: "KiB a slot"}
	before := heap()
	for _, n := range slotCounts() {
		slots := make([]shared.SlotSpec, n)
		for i := range slots {
			slots[i] = b.spec
			slots[i].SlotID, slots[i].Model = fmt.Sprintf("slot-%d", i), fmt.Sprintf("model-%d", i)
			// Each an identity of its own; the one that is asked has a size that the
			// engine can work with.
			slots[i].PageTokens = otherPage + n - 1 - i
		}
		last := slots[n-1].SlotID
		err := b.app.withStack(ctx, state, slots, func(f shared.Frontend) error {
			if n > 1 {
				used := float64(heap()-before) / 1024 / float64(n)
				memory.Points = append(memory.Points, bench.Point{X: float64(n), Value: bench.SpreadOf([]float64{used})})
			}
			var phase, direct []float64
			for i := range b.o.warmUp + b.o.runs {
				m, err := b.ask(ctx, f, last, false)
				if err != nil {
					return err
				}
				if i >= b.o.warmUp {
					phase = append(phase, shared.Milliseconds(m.Phases.Route))
				}
			}
			for range lookups {
				start := time.Now()
				if _, err := f.Resolve(ctx, shared.Requirement{Model: slots[n-1].Model}); err != nil {
					return err
				}
				direct = append(direct, float64(time.Since(start))/float64(time.Microsecond))
			}
			route.Points = append(route.Points, bench.Point{X: float64(n), Value: bench.SpreadOf(phase)})
			resolve.Points = append(resolve.Points, bench.Point{X: float64(n), Value: bench.SpreadOf(direct)})
			return nil
		})
		if err != nil {
			return err
		}
		_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
	}
	b.doc.Curves = append(b.doc.Curves, route, resolve, memory)
	return nil
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// pageCosts looks prompts up among more and more pages, in the worker's own
// store of pages, in this process.
func (b *bencher) pageCosts(ctx context.Context) error {
	c := bench.Curve{Case: "pages_lookup", X: "known pages", Unit: "µs"}
	for _, n := range pageCounts() {
		values, err := lookupTimes(ctx, n)
		if err != nil {
			return err
		}
		c.Points = append(c.Points, bench.Point{X: float64(n), Value: bench.SpreadOf(values)})
		_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
	}
	b.doc.Curves = append(b.doc.Curves, c)
	return nil
}

const (
	costPage   = 64 // tokens in a page
	costPrompt = 8  // pages of a prompt
	costRow    = 4  // bytes of state a token: what is looked up has no payload
)

// lookupTimes fills a store with n pages of prompts that have nothing in common,
// and looks known ones up.
func lookupTimes(ctx context.Context, n int) (values []float64, err error) {
	layout := pages.Layout{Streams: 1, Planes: []pages.Plane{{Row: costRow / 2}, {Row: costRow / 2}}}
	store, err := pages.Open(pages.Config{
		Identity: shared.Identity{
			ModelRevision: "sha256:bench", Precision: "F16", TokenizerRevision: "sha256:bench", LayoutRevision: "sha256:bench", SlotRevision: "sha256:bench",
		},
		PageTokens: costPage, Layout: layout, HostBytes: int64(n+costPrompt) * costPage * costRow * 2,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := store.Close(ctx); err == nil {
			err = closeErr
		}
	}()
	const tokens = costPage * costPrompt
	blob, err := layout.Join(nil, 0, []pages.Piece{{Payload: make([]byte, tokens*costRow), Cells: tokens, Use: tokens}})
	if err != nil {
		return nil, err
	}
	state, err := pages.ParseState(blob)
	if err != nil {
		return nil, err
	}
	prompt := func(number int) []int32 {
		list := make([]int32, tokens+1)
		for i := range list {
			list[i] = int32(number + i)
		}
		return list
	}
	for number := 0; number*costPrompt < n; number++ {
		if _, err := store.Save(pages.Save{Prompt: store.NewPrompt(prompt(number)), State: state}); err != nil {
			return nil, err
		}
	}
	for i := range lookups {
		known := prompt(i % (n / costPrompt))
		start := time.Now()
		plan := store.Lookup(pages.Query{Prompt: store.NewPrompt(known)})
		values = append(values, float64(time.Since(start))/float64(time.Microsecond))
		if plan.Tokens != tokens {
			return nil, fmt.Errorf("a lookup among %d pages found %d of %d tokens: %s", n, plan.Tokens, tokens, plan.Reason)
		}
		store.Release(plan, pages.Unused)
	}
	return values, nil
}
