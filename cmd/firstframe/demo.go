package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/testdata/models"
)

const (
	demoPrompt = "Tell me a story about a fox."
	demoTokens = 72
	demoDrain  = time.Second
	// One thread: the model is so small that threads wait for each other longer than they compute.
	demoThreads = 1
	demoQ8      = "story-q8"
	demoF16     = "story-f16"
)

func (a *app) demoCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch two slots of an embedded model answer, with their phases",
		Long:  "Start two slots of a small embedded model, Q8_0 and F16, and ask them the same thing cold, resident and\nafter an eviction. Each answer is followed by its phases. Nothing is left behind.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.demo(cmd.Context(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the measurements as one JSON document and nothing else")
	return cmd
}

// demoSlots are the two slots of the demonstration; nothing is loaded before a
// request asks for it.
func demoSlots(dir string) []shared.SlotSpec {
	slot := func(id, file string, transfer shared.Transfer) shared.SlotSpec {
		return shared.SlotSpec{
			SlotID: id, Model: "storyteller", ModelPath: filepath.Join(dir, file), Device: "cpu", Transfer: transfer,
			ContextTokens: 1024, Parallel: 1, PageTokens: 64, KVType: "f16", PrefillChunk: 512,
			Threads: demoThreads, OnMiss: shared.OnMissWait,
		}
	}
	return []shared.SlotSpec{slot(demoQ8, models.Q8, shared.TransferMmap), slot(demoF16, models.F16, shared.TransferPageable)}
}

// withModels writes the embedded models to a folder that is removed afterwards.
func withModels(run func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "firstframe-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, name := range []string{models.Q8, models.F16} {
		data, err := fs.ReadFile(models.Files(), name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return run(dir)
}

// withDemoStack runs a supervisor of its own with the embedded models.
func (a *app) withDemoStack(ctx context.Context, run func(f shared.Frontend) error) error {
	return withModels(func(dir string) (err error) {
		s, err := a.startStack(ctx, stackConfig{
			stateDir: filepath.Join(dir, "state"), slots: demoSlots(dir), logger: hclog.NewNullLogger(), drain: demoDrain,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		return run(s)
	})
}

type demoStep struct {
	name, title, slot string
	before            func(context.Context, shared.Frontend, string) error
}

func demoSteps() []demoStep {
	return []demoStep{
		{caseCold, "1. Cold: the first request for slot " + demoQ8 + " starts its worker and prepares it", demoQ8, nil},
		{caseResident, "2. Resident: the same question again, nothing has to be prepared", demoQ8, nil},
		{caseCold, "3. Another precision: slot " + demoF16 + " is its own process, and tells its own story", demoF16, nil},
		{caseResident, "4. Back to slot " + demoQ8 + ": switching costs nothing, both stay resident", demoQ8, nil},
		{caseEvicted, "5. Evicted and back: the host buffer was kept, so it is a transfer and not a load", demoQ8, makeEvicted},
	}
}

func (a *app) demo(ctx context.Context, asJSON bool) error {
	doc := benchJSON{Benchmark: benchmarkName}
	err := a.withDemoStack(ctx, func(f shared.Frontend) error {
		for _, step := range demoSteps() {
			if step.before != nil {
				if err := step.before(ctx, f, step.slot); err != nil {
					return err
				}
			}
			m, err := a.demoStep(ctx, f, step, asJSON)
			if err != nil {
				return err
			}
			doc.Runs = append(doc.Runs, toRun(step.name, m))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(doc)
	}
	return demoSummary(a.out, doc.Runs)
}

func (a *app) demoStep(ctx context.Context, f shared.Frontend, step demoStep, quiet bool) (shared.Measured, error) {
	if quiet {
		return measure(ctx, f, step.slot, demoPrompt, demoTokens, func(string) error { return nil })
	}
	fmt.Fprintf(a.out, "\n%s\n\n  > %s\n\n", step.title, demoPrompt)
	text := &wrapper{out: a.out, indent: "  ", width: 78}
	m, err := measure(ctx, f, step.slot, demoPrompt, demoTokens, text.write)
	if err != nil {
		return m, err
	}
	fmt.Fprint(a.out, "\n\n")
	newBars(a.out).request(m)
	return m, nil
}

// demoSummary compares the runs.
func demoSummary(w io.Writer, runs []runJSON) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "slot\tcase\tactivation ms\tprefill ms\tfirst chunk ms\t")
	for _, r := range runs {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.2f\t\n", r.SlotID, r.Case,
			r.PhaseMS[string(shared.PhaseSlotActivation)], r.PhaseMS[string(shared.PhasePrefill)], r.FirstChunkMS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nNext: firstframe serve -c testdata/hcl/demo.hcl, and firstframe generate in another terminal.")
	return err
}

// wrapper breaks streamed text into lines at the first space near the right edge.
type wrapper struct {
	out    io.Writer
	indent string
	width  int
	column int
}

func (w *wrapper) write(text string) error {
	var b strings.Builder
	for _, r := range text {
		if w.column == 0 {
			b.WriteString(w.indent)
			w.column = len(w.indent)
		}
		if r == '\n' || (r == ' ' && w.column >= w.width-8) {
			b.WriteByte('\n')
			w.column = 0
			continue
		}
		b.WriteRune(r)
		w.column++
	}
	_, err := io.WriteString(w.out, b.String())
	return err
}
