package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

// benchDisk is the disk tier of a slot that is measured by itself.
const benchDisk = 4 << 30

// bencher collects what is measured.
type bencher struct {
	app   *app
	o     benchOptions
	spec  shared.SlotSpec // of the slot in a supervisor of its own
	asked int             // the number of the latest prompt that nobody had seen
	last  int             // the number of the one to be repeated
	doc   bench.Document
	bar   *progressbar.ProgressBar
}

func (a *app) newBench(o benchOptions) *bencher {
	env := bench.Here(time.Now())
	return &bencher{
		app: a, o: o,
		doc: bench.Document{
			Benchmark: bench.Name, Environment: &env, Runs: []bench.Run{},
			Settings: &bench.Settings{Model: o.slot, Runs: o.runs, WarmUp: o.warmUp, MaxTokens: o.tokens, Seed: o.seed, Parallel: o.parallel},
		},
		bar: progressbar.NewOptions(o.steps(), progressbar.OptionSetWriter(a.errOut), progressbar.OptionShowCount(),
			progressbar.OptionSetVisibility(isTerminal(a.errOut)), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("bench")),
	}
}

// benchCase is one case with one request at a time.
type benchCase struct {
	want, name string
	// before brings the slot into the state that the case is about.
	before func(ctx context.Context, f shared.Frontend, slot string) error
	known  bool // the prompt is one that was asked before
	// cold runs start from nothing: they are dear, and warming them up would make
	// another case of them.
	cold bool
}

// run measures all runs of a case.
func (b *bencher) run(ctx context.Context, f shared.Frontend, slot string, c benchCase) error {
	if !b.o.wants(c.want) {
		return nil
	}
	b.bar.Describe(c.name)
	warm, runs := b.o.warmUp, b.o.runs
	if c.cold {
		warm, runs = 0, b.o.fewRuns()
	}
	for i := range warm + runs {
		m, err := b.one(ctx, f, slot, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if i >= warm {
			b.add(c.name, m)
		}
	}
	return nil
}

// one measures one run of a case.
func (b *bencher) one(ctx context.Context, f shared.Frontend, slot string, c benchCase) (shared.Measured, error) {
	if c.before != nil {
		if err := c.before(ctx, f, slot); err != nil {
			return shared.Measured{}, err
		}
	}
	return b.ask(ctx, f, slot, c.known)
}

func (b *bencher) add(name string, m shared.Measured) {
	b.doc.Runs = append(b.doc.Runs, bench.RunOf(name, m))
	_ = b.bar.Add(1) // a bar that cannot be drawn does not matter
}

// ask asks the prompt under a new number, or once more what was asked last.
func (b *bencher) ask(ctx context.Context, f shared.Frontend, slot string, known bool) (shared.Measured, error) {
	if !known {
		b.asked++
		b.last = b.asked
	}
	return b.askNumber(ctx, f, slot, b.last)
}

func (b *bencher) askNumber(ctx context.Context, f shared.Frontend, slot string, number int) (shared.Measured, error) {
	prompt := fmt.Sprintf("%04d. %s", number, b.o.prompt)
	return measure(ctx, f, slot, prompt, b.o.tokens, func(string) error { return nil })
}

// fewRuns is how often a case is measured whose runs each start a process.
func (o *benchOptions) fewRuns() int { return min(o.runs, o.processRuns) }

// attached measures a slot of a running supervisor, whose process stays: its
// cold case starts from an empty slot.
func (b *bencher) attached(ctx context.Context, f shared.Frontend) error {
	if err := b.run(ctx, f, b.o.slot, benchCase{want: wantCold, name: caseCold, before: makeEmpty, cold: true}); err != nil {
		return err
	}
	list, err := f.ListSlots(ctx)
	if err != nil {
		return err
	}
	info, err := slotOf(list, b.o.slot)
	if err != nil {
		return err
	}
	b.doc.Settings.Model, b.doc.Settings.Precision = info.Model, info.Identity.Precision
	b.doc.Settings.Context, b.doc.Settings.Parallel = info.ContextTokens, info.Parallel
	if err := b.warm(ctx, f, b.o.slot, info.Parallel, false); err != nil {
		return err
	}
	return b.loads(ctx, f, b.o.slot, info.ContextTokens)
}

// warm measures the cases of one slot whose worker has served before.
func (b *bencher) warm(ctx context.Context, f shared.Frontend, slot string, parallel int, own bool) error {
	if _, err := b.ask(ctx, f, slot, false); err != nil { // not counted
		return err
	}
	b.seeVariant(ctx, f, slot)
	cases := []benchCase{
		{want: wantResident, name: caseResident},
		{want: wantHit, name: caseHit, known: true},
		{want: wantEvicted, name: caseEvicted, before: makeEvicted},
		{want: wantHostHit, name: caseHostHit, before: b.displaced(parallel), known: true},
	}
	if own {
		cases = append(cases,
			benchCase{want: wantRestarted, name: caseDisk, before: makeRestarted, known: true, cold: true},
			benchCase{want: wantDiskHit, name: caseDiskHit, before: makeOnlyDisk, known: true})
	}
	for _, c := range cases {
		if err := b.run(ctx, f, slot, c); err != nil {
			return err
		}
	}
	return nil
}

// displaced asks something new and then so much else that no sequence holds it
// any more: what is left of it is in host memory.
func (b *bencher) displaced(parallel int) func(context.Context, shared.Frontend, string) error {
	return func(ctx context.Context, f shared.Frontend, slot string) error {
		if _, err := b.ask(ctx, f, slot, false); err != nil {
			return err
		}
		keep := b.last
		for range parallel {
			if _, err := b.ask(ctx, f, slot, false); err != nil {
				return err
			}
		}
		b.last = keep
		return nil
	}
}

// seeVariant notes which build of the engine the worker has loaded.
func (b *bencher) seeVariant(ctx context.Context, f shared.Frontend, slot string) {
	list, err := f.ListSlots(ctx)
	if err != nil {
		return
	}
	if info, err := slotOf(list, slot); err == nil && info.PID > 0 && b.app.frontend == nil {
		b.doc.Environment.CPUVariant = bench.CPUVariant(info.PID)
	}
}

// own measures in supervisors of its own, a new one wherever the state of the
// last one would count. Each cold run has one, so that it includes the start of
// the worker process.
func (b *bencher) own(ctx context.Context, dir string) error {
	slots := []shared.SlotSpec{b.spec}
	slot := b.spec.SlotID
	state := filepath.Join(dir, "s")
	if b.o.wants(wantCold) {
		for range b.o.fewRuns() {
			err := b.app.withStack(ctx, state, slots, func(f shared.Frontend) error {
				m, err := b.ask(ctx, f, slot, false)
				if err == nil {
					b.add(caseCold, m)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc([]string{wantResident, wantHit, wantEvicted, wantHostHit, wantRestarted, wantDiskHit}, b.o.wants) {
		err := b.app.withStack(ctx, state, slots, func(f shared.Frontend) error { return b.warm(ctx, f, slot, b.spec.Parallel, true) })
		if err != nil {
			return err
		}
	}
	if err := b.switches(ctx, state); err != nil {
		return err
	}
	if slices.ContainsFunc([]string{wantShared, wantConcurrency, wantOpenLoop, wantLength}, b.o.wants) {
		wide := b.spec
		wide.Parallel = b.o.parallel
		err := b.app.withStack(ctx, state, []shared.SlotSpec{wide}, func(f shared.Frontend) error {
			return b.loads(ctx, f, slot, wide.ContextTokens)
		})
		if err != nil {
			return err
		}
	}
	return b.costs(ctx, dir)
}
