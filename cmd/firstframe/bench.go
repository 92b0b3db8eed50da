package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

func (a *app) benchCmd() *cobra.Command {
	var runs, tokens int
	var slot, file, prompt string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the phases cold, resident, with context pages and after an eviction; JSON on standard output",
		Long:  "Measure the phases of the first chunk, each case several times. The embedded model, or the file\ngiven with --model, runs in a supervisor of its own. With --slot a slot of the running supervisor is measured, and\nevicted again and again for it. Every case but the two about context pages asks something new each time.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slot != "" && file != "" {
				return &usageError{errors.New("--slot and --model exclude each other")}
			}
			if runs < 1 || tokens < 1 {
				return &usageError{errors.New("--runs and --max-tokens are at least 1")}
			}
			ctx := cmd.Context()
			switch {
			case slot == "" && file == "":
				return withModels(func(dir string) error {
					return a.benchOwn(ctx, filepath.Join(dir, "s"), demoSlots(dir)[:1], prompt, runs, tokens)
				})
			case slot == "":
				return a.benchFile(ctx, file, prompt, runs, tokens)
			}
			f, done, err := a.attach(ctx)
			if err != nil {
				return err
			}
			defer done()
			return a.bench(ctx, f, slot, prompt, runs, tokens)
		},
	}
	cmd.Flags().IntVar(&runs, "runs", 10, "measured runs of each case")
	cmd.Flags().IntVar(&tokens, "max-tokens", 16, "tokens generated in each run")
	cmd.Flags().StringVar(&slot, "slot", "", "slot of the running supervisor (default: the embedded model)")
	cmd.Flags().StringVar(&file, "model", "", "GGUF file to measure instead of the embedded model")
	cmd.Flags().StringVar(&prompt, "prompt", demoPrompt, "the prompt")
	return cmd
}

// benchDisk is the disk tier of a slot that is measured by itself.
const benchDisk = 4 << 30

// benchCase is one case: how to bring the slot into its state, and how often.
type benchCase struct {
	name   string
	before func(context.Context, shared.Frontend, string) error
	known  bool // the prompt is one that was asked before
}

// benchFile measures a model file with the defaults of a slot.
func (a *app) benchFile(ctx context.Context, file, prompt string, runs, tokens int) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return withTempDir(func(dir string) error {
		slots := []shared.SlotSpec{ownSlot("bench", name, path, shared.TransferAuto, runtime.NumCPU())}
		return a.benchOwn(ctx, filepath.Join(dir, "s"), slots, prompt, runs, tokens)
	})
}

// benchOwn measures the one slot of a supervisor of its own. Each cold run has a
// new one, so that it includes the start of the worker process.
func (a *app) benchOwn(ctx context.Context, stateDir string, slots []shared.SlotSpec, prompt string, runs, tokens int) error {
	slots = slices.Clone(slots)
	slots[0].PagesDisk = benchDisk
	b := a.newBench(prompt, runs, tokens, 5*runs)
	b.disk = true
	slot := slots[0].SlotID
	for range runs {
		err := a.withStack(ctx, stateDir, slots, func(f shared.Frontend) error {
			return b.run(ctx, f, slot, benchCase{name: caseCold})
		})
		if err != nil {
			return err
		}
	}
	err := a.withStack(ctx, stateDir, slots, func(f shared.Frontend) error { return b.warm(ctx, f, slot) })
	if err != nil {
		return err
	}
	return b.report()
}

// bench measures a slot of a running supervisor, whose process stays: its cold
// case starts from an empty slot.
func (a *app) bench(ctx context.Context, f shared.Frontend, slot, prompt string, runs, tokens int) error {
	b := a.newBench(prompt, runs, tokens, 4*runs)
	for range runs {
		if err := b.run(ctx, f, slot, benchCase{name: caseCold, before: makeEmpty}); err != nil {
			return err
		}
	}
	if err := b.warm(ctx, f, slot); err != nil {
		return err
	}
	return b.report()
}

// bencher collects runs.
type bencher struct {
	app    *app
	prompt string
	runs   int
	tokens int
	asked  int
	disk   bool // the slot keeps pages on disk
	doc    benchJSON
	bar    *progressbar.ProgressBar
}

func (a *app) newBench(prompt string, runs, tokens, total int) *bencher {
	return &bencher{
		app: a, prompt: prompt, runs: runs, tokens: tokens, doc: benchJSON{Benchmark: benchmarkName},
		bar: progressbar.NewOptions(total, progressbar.OptionSetWriter(a.errOut),
			progressbar.OptionSetVisibility(isTerminal(a.errOut)), progressbar.OptionClearOnFinish()),
	}
}

// run measures one run of a case.
func (b *bencher) run(ctx context.Context, f shared.Frontend, slot string, c benchCase) error {
	if c.before != nil {
		if err := c.before(ctx, f, slot); err != nil {
			return err
		}
	}
	m, err := b.ask(ctx, f, slot, c.known)
	if err != nil {
		return err
	}
	b.doc.Runs = append(b.doc.Runs, toRun(c.name, m))
	_ = b.bar.Add(1)
	return nil
}

// ask asks the prompt under a new number, or once more what was asked last.
func (b *bencher) ask(ctx context.Context, f shared.Frontend, slot string, known bool) (shared.Measured, error) {
	if !known {
		b.asked++
	}
	prompt := fmt.Sprintf("%04d. %s", b.asked, b.prompt)
	return measure(ctx, f, slot, prompt, b.tokens, func(string) error { return nil })
}

// warm measures the cases that need a worker which has served before.
func (b *bencher) warm(ctx context.Context, f shared.Frontend, slot string) error {
	if _, err := b.ask(ctx, f, slot, false); err != nil { // not counted
		return err
	}
	cases := []benchCase{
		{name: caseResident}, {name: caseHit, known: true}, {name: caseEvicted, before: makeEvicted},
	}
	if b.disk {
		cases = append(cases, benchCase{name: caseDisk, before: makeRestarted, known: true})
	}
	for _, c := range cases {
		for range b.runs {
			if err := b.run(ctx, f, slot, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// cases lists the cases that were run, in order.
func (b *bencher) cases() []string {
	var names []string
	for _, r := range b.doc.Runs {
		if !slices.Contains(names, r.Case) {
			names = append(names, r.Case)
		}
	}
	return names
}

func (b *bencher) report() error {
	for _, name := range b.cases() {
		c := summarise(name, b.doc.Runs)
		b.doc.Summary = append(b.doc.Summary, c)
		b.app.progressf("%-32s first chunk: median %9.2f ms, p95 %9.2f ms, %d runs", c.Case, c.FirstChunkMS.Median, c.FirstChunkMS.P95, c.Runs)
	}
	return b.app.printJSON(b.doc)
}
