package main

import (
	"context"
	"errors"
	"slices"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

// caseJSON sums up the first-chunk times of one case.
type caseJSON struct {
	Case     string  `json:"case"`
	Runs     int     `json:"runs"`
	MinMS    float64 `json:"first_chunk_min_ms"`
	MedianMS float64 `json:"first_chunk_median_ms"`
	P95MS    float64 `json:"first_chunk_p95_ms"`
	MaxMS    float64 `json:"first_chunk_max_ms"`
}

func (a *app) benchCmd() *cobra.Command {
	var runs, tokens int
	var slot, prompt string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the phases cold, resident and after an eviction; JSON on standard output",
		Long:  "Measure the phases of the first chunk, each case several times. Without --slot the embedded model runs in\na supervisor of its own. With --slot a slot of the running supervisor is measured, and evicted again and again\nfor it.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 || tokens < 1 {
				return &usageError{errors.New("--runs and --max-tokens are at least 1")}
			}
			ctx := cmd.Context()
			if slot == "" {
				return a.benchOwn(ctx, prompt, runs, tokens)
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
	cmd.Flags().StringVar(&prompt, "prompt", demoPrompt, "the prompt")
	return cmd
}

// benchCase is one case: how to bring the slot into its state, and how often.
type benchCase struct {
	name   string
	before func(context.Context, shared.Frontend, string) error
}

// benchOwn measures the embedded model. Each cold run has a supervisor of its
// own, so that it includes the start of the worker process.
func (a *app) benchOwn(ctx context.Context, prompt string, runs, tokens int) error {
	b := a.newBench(prompt, runs, tokens, 3*runs)
	for range runs {
		err := a.withDemoStack(ctx, func(f shared.Frontend) error {
			return b.run(ctx, f, demoQ8, benchCase{name: caseCold})
		})
		if err != nil {
			return err
		}
	}
	err := a.withDemoStack(ctx, func(f shared.Frontend) error { return b.warm(ctx, f, demoQ8) })
	if err != nil {
		return err
	}
	return b.report()
}

// bench measures a slot of a running supervisor, whose process stays: its cold
// case starts from an empty slot.
func (a *app) bench(ctx context.Context, f shared.Frontend, slot, prompt string, runs, tokens int) error {
	b := a.newBench(prompt, runs, tokens, 3*runs)
	for range runs {
		if err := b.run(ctx, f, slot, benchCase{caseCold, makeEmpty}); err != nil {
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
	m, err := b.ask(ctx, f, slot)
	if err != nil {
		return err
	}
	b.doc.Runs = append(b.doc.Runs, toRun(c.name, m))
	_ = b.bar.Add(1)
	return nil
}

func (b *bencher) ask(ctx context.Context, f shared.Frontend, slot string) (shared.Measured, error) {
	return measure(ctx, f, slot, b.prompt, b.tokens, func(string) error { return nil })
}

// warm measures the cases that need a worker which has served before.
func (b *bencher) warm(ctx context.Context, f shared.Frontend, slot string) error {
	if _, err := b.ask(ctx, f, slot); err != nil { // not counted
		return err
	}
	for _, c := range []benchCase{{caseResident, nil}, {caseEvicted, makeEvicted}} {
		for range b.runs {
			if err := b.run(ctx, f, slot, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bencher) report() error {
	for _, name := range []string{caseCold, caseResident, caseEvicted} {
		c := summarise(name, b.doc.Runs)
		b.doc.Summary = append(b.doc.Summary, c)
		b.app.progressf("%-32s median %8.2f ms   p95 %8.2f ms   n=%d", c.Case, c.MedianMS, c.P95MS, c.Runs)
	}
	return b.app.printJSON(b.doc)
}

func summarise(name string, runs []runJSON) caseJSON {
	var ms []float64
	for _, r := range runs {
		if r.Case == name {
			ms = append(ms, r.FirstChunkMS)
		}
	}
	slices.Sort(ms)
	return caseJSON{
		Case: name, Runs: len(ms), MinMS: ms[0], MedianMS: quantile(ms, 0.5), P95MS: quantile(ms, 0.95), MaxMS: ms[len(ms)-1],
	}
}

// quantile is the nearest-rank quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	rank := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}
