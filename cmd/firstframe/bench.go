package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/internal/bench/report"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/cores"
	"github.com/firstframe/firstframe/shared/gguf"
)

// benchOptions is what the command line asks of the benchmark.
type benchOptions struct {
	runs, processRuns          int
	warmUp, tokens             int
	slot, file, prompt         string
	cases                      []string
	out                        string
	asJSON                     bool
	seed                       uint64
	threads, parallel, context int
	match                      matchOptions
}

// benchContext is the context of a benchmark unless the model was trained on less.
const benchContext = 2048

func (a *app) benchCmd() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:         "bench",
		Annotations: map[string]string{supervises: ""},
		Short:       "Measure where the time to the first chunk goes, under load, and against other servers",
		Long: "Measure the phases of the first chunk, each case several times. The embedded model, or the file\n" +
			"given with --model, runs in a supervisor of its own. With --slot a slot of the running supervisor is measured, and\n" +
			"evicted again and again for it. Every case but those about context pages asks something new each time.\n" +
			"With --against the same work is done in turns by this program, through its HTTP proxy, and by other servers.\n\n" +
			"Cases: " + strings.Join(caseNames(), ", ") + ";\n\"quick\" (the default) is those that take less than a minute together with a small model, \"all\" is all.\n" +
			"Cases of --against: " + strings.Join(bench.MatchCases(), ", ") + ".\n\n" +
			"The document goes to standard output as JSON, or with --out into a folder, with a table and a page of charts.",
		Example: "  firstframe bench --out report\n  firstframe bench --model model.gguf --cases cold,resident,concurrency --runs 20\n" +
			"  firstframe bench --model model.gguf --against http://127.0.0.1:8081",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return &usageError{err}
			}
			return a.runBench(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.runs, "runs", 20, "measured runs of each case")
	flags.IntVar(&o.processRuns, "process-runs", 6, "at most so many of them where each starts a process")
	flags.IntVar(&o.warmUp, "warm-up", 2, "runs before those, which do not count")
	flags.IntVar(&o.tokens, "max-tokens", 16, "tokens generated in each run")
	flags.StringVar(&o.slot, "slot", "", "slot of the running supervisor (default: the embedded model)")
	flags.StringVar(&o.file, "model", "", "GGUF file to measure instead of the embedded model")
	flags.StringVar(&o.prompt, "prompt", demoPrompt, "the prompt of cases with one request at a time")
	flags.StringSliceVar(&o.cases, "cases", []string{quickCases}, "cases, or quick, or all")
	flags.StringVar(&o.out, "out", "", "folder to write JSON, CSV, pictures and an HTML page into")
	flags.BoolVar(&o.asJSON, "json", false, "print the JSON document also with --out")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of prompts and of the times at which requests come")
	flags.IntVar(&o.threads, "threads", 0, "threads of the engine (0: one for each core, or 1 for the embedded model)")
	flags.IntVar(&o.parallel, "parallel", 8, "sequences of the slot where several requests run at once")
	flags.IntVar(&o.context, "context", 0, fmt.Sprintf("tokens of context of each sequence (0: %d, or what the model was trained on)", benchContext))
	o.match.flags(flags)
	cmd.AddCommand(a.benchDiffCmd())
	return cmd
}

// check refuses options that contradict each other, and resolves the cases.
func (o *benchOptions) check() error {
	switch {
	case o.slot != "" && o.file != "":
		return errors.New("--slot and --model exclude each other")
	case o.slot != "" && len(o.match.against) > 0:
		return errors.New("--slot and --against exclude each other: the comparison starts a slot of its own")
	case o.runs < 1 || o.processRuns < 1 || o.tokens < 1:
		return errors.New("--runs, --process-runs and --max-tokens are at least 1")
	case o.warmUp < 0 || o.threads < 0 || o.context < 0 || o.parallel < 1:
		return errors.New("--warm-up, --threads and --context cannot be negative, and --parallel is at least 1")
	}
	if len(o.match.against) > 0 {
		return o.match.check(o.cases)
	}
	var err error
	o.cases, err = chooseCases(o.cases, o.slot == "")
	return err
}

func (o *benchOptions) wants(name string) bool { return slices.Contains(o.cases, name) }

func (a *app) runBench(ctx context.Context, o benchOptions) error {
	switch {
	case o.slot != "":
		f, done, err := a.attach(ctx)
		if err != nil {
			return err
		}
		defer done()
		b := a.newBench(o)
		if err := b.attached(ctx, f); err != nil {
			return err
		}
		return b.report()
	case o.file == "":
		return withModels(func(dir string) error { return a.benchOwn(ctx, dir, demoSlots(dir)[0], o) })
	}
	path, err := filepath.Abs(o.file)
	if err != nil {
		return err
	}
	threads := o.threads
	if threads == 0 {
		threads = cores.Usable()
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return withTempDir(func(dir string) error {
		return a.benchOwn(ctx, dir, ownSlot("bench", name, path, shared.TransferAuto, threads), o)
	})
}

// benchOwn measures a slot in supervisors of its own, or against other servers.
func (a *app) benchOwn(ctx context.Context, dir string, slot shared.SlotSpec, o benchOptions) error {
	header, err := gguf.ReadFile(slot.ModelPath)
	if err != nil {
		return err
	}
	slot.ContextTokens = o.context
	if o.context == 0 {
		slot.ContextTokens = benchContext
		if trained := header.TrainedTokens(); trained > 0 {
			slot.ContextTokens = min(trained, benchContext)
		}
	}
	if o.threads > 0 {
		slot.Threads = o.threads
	}
	slot.PagesDisk = benchDisk
	b := a.newBench(o)
	b.doc.Settings.Model, b.doc.Settings.Precision = slot.Model, header.Precision()
	b.doc.Settings.Threads, b.doc.Settings.Context = slot.Threads, slot.ContextTokens
	b.spec = slot
	if len(o.match.against) > 0 {
		err = b.against(ctx, dir)
	} else {
		err = b.own(ctx, dir)
	}
	if err != nil {
		return err
	}
	return b.report()
}

// report prints what was measured, and writes it where that was asked for.
func (b *bencher) report() error {
	_ = b.bar.Finish() // a bar that cannot be drawn does not matter
	b.doc.Summary = bench.Summarise(b.doc.Runs)
	for _, c := range b.doc.Summary {
		b.app.progressf("%-32s first chunk: median %9.2f ms, p95 %9.2f ms, %d runs", c.Case, c.FirstChunkMS.Median, c.FirstChunkMS.P95, c.Runs)
	}
	for _, l := range b.doc.Loads {
		b.app.progressf("%-32s first chunk: median %9.2f ms, p95 %9.2f ms, %d requests, %d failed, %.0f tokens/s (%s)",
			l.Case, l.FirstChunkMS.Median, l.FirstChunkMS.P95, l.Requests, l.Failed, l.TokensPerSecond, l.Mode)
	}
	for _, c := range b.doc.Curves {
		for _, p := range c.Points {
			b.app.progressf("%-32s %s %8g: median %9.4g %s, p95 %9.4g", c.Case, c.X, p.X, p.Value.Median, c.Unit, p.Value.P95)
		}
	}
	b.tellMatch()
	if b.o.out != "" {
		if err := report.Write(b.o.out, b.doc); err != nil {
			return err
		}
		b.app.progressf("written: %s", filepath.Join(b.o.out, report.PageFile))
		if !b.o.asJSON {
			return nil
		}
	}
	return b.app.printJSON(b.doc)
}
