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
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/testdata/models"
)

const (
	demoPrompt = "Tell me a story about a fox."
	demoOther  = "What is prefill?"
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
		Use:         "demo",
		Annotations: map[string]string{supervises: ""},
		Short:       "Watch two slots of an embedded model answer, with their phases",
		Long:        "Start two slots of a small embedded model, Q8_0 and F16, and ask them the same thing cold, resident and\nafter an eviction. Each answer is followed by its phases. Nothing is left behind.",
		Args:        usageArgs(cobra.NoArgs),
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
	return []shared.SlotSpec{
		ownSlot(demoQ8, "storyteller", filepath.Join(dir, models.Q8), shared.TransferMmap, demoThreads),
		ownSlot(demoF16, "storyteller", filepath.Join(dir, models.F16), shared.TransferPageable, demoThreads),
	}
}

// ownSlot is a slot of a supervisor that a command runs for itself.
func ownSlot(id, model, path string, transfer shared.Transfer, threads int) shared.SlotSpec {
	return shared.SlotSpec{
		SlotID: id, Model: model, ModelPath: path, Device: "cpu", Transfer: transfer,
		ContextTokens: 1024, Parallel: 1, PageTokens: 64, KVType: "f16", PrefillChunk: 512,
		Threads: threads, OnMiss: shared.OnMissWait,
	}
}

// withTempDir runs with a folder that is removed afterwards.
func withTempDir(run func(dir string) error) error {
	dir, err := os.MkdirTemp("", "ff") // short, since paths of sockets are
	if err != nil {
		return err
	}
	return errors.Join(run(dir), os.RemoveAll(dir))
}

// withModels runs with a folder that has the embedded models in it.
func withModels(run func(dir string) error) error {
	return withTempDir(func(dir string) error {
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
	})
}

// withStack runs with a supervisor of its own, once the identities of its slots
// are known: reading the files is part of declaring slots, not of a request.
func (a *app) withStack(ctx context.Context, stateDir string, slots []shared.SlotSpec, run func(f shared.Frontend) error) error {
	return a.withStackOf(ctx, stackConfig{
		stateDir: stateDir, slots: slots, logger: hclog.NewNullLogger(), life: hcl.Life{DrainTimeout: demoDrain},
	}, run)
}

func (a *app) withStackOf(ctx context.Context, cfg stackConfig, run func(f shared.Frontend) error) error {
	if a.frontend != nil {
		return run(a.frontend)
	}
	s, err := a.startStack(ctx, cfg)
	if err != nil {
		return err
	}
	for _, slot := range cfg.slots {
		if _, err := s.Resolve(ctx, shared.Requirement{SlotID: slot.SlotID}); err != nil {
			return errors.Join(err, s.close())
		}
	}
	return errors.Join(run(s), s.close())
}

type demoStep struct {
	name, title, short, slot, prompt string
	before                           func(context.Context, shared.Frontend, string) error
}

func demoSteps() []demoStep {
	return []demoStep{
		{caseCold, "Slot A, cold: its worker starts and everything is prepared", "1 A cold", demoQ8, demoPrompt, nil},
		{caseResident, `Slot A, resident, asked "What is prefill?": nothing has to be prepared`, "2 A resident", demoQ8, demoOther, nil},
		{caseHit, "Slot A, the first question again: its context pages are still there", "3 A page hit", demoQ8, demoPrompt, nil},
		{caseCold, "Slot B, cold: another precision tells another story", "4 B cold", demoF16, demoPrompt, nil},
		{caseHit, "Slot A again: switching costs nothing, both stay resident", "5 A after B", demoQ8, demoPrompt, nil},
		{caseEvicted, "Slot A, evicted and back: a transfer, not a load", "6 A evicted, back", demoQ8, demoPrompt, makeEvicted},
	}
}

func (a *app) demo(ctx context.Context, asJSON bool) error {
	doc := bench.Document{Benchmark: bench.Name}
	show := newBars(a.out)
	var done []compared
	err := a.withDemo(ctx, func(f shared.Frontend) error {
		if !asJSON {
			demoIntroduction(show)
		}
		for i, step := range demoSteps() {
			if step.before != nil {
				if err := step.before(ctx, f, step.slot); err != nil {
					return err
				}
			}
			deliver := func(string) error { return nil }
			if !asJSON {
				demoTitle(show, i+1, step.title)
				deliver = (&wrapper{out: a.out, indent: "  ", width: 76}).write
			}
			m, err := measure(ctx, f, step.slot, step.prompt, demoTokens, deliver)
			if err != nil {
				return err
			}
			doc.Runs = append(doc.Runs, bench.RunOf(step.name, m))
			done = append(done, compared{step.short, m})
			if !asJSON {
				fmt.Fprint(a.out, "\n\n")
				show.request(m)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.printJSON(doc)
	}
	demoTitle(show, 0, "All of them")
	show.compare(done)
	_, err = fmt.Fprintln(a.out, "\n  Next: firstframe serve -c testdata/hcl/demo.hcl, and in another terminal\n"+
		"        firstframe generate --model storyteller --precision F16 \"Hello!\"")
	return err
}

func (a *app) withDemo(ctx context.Context, run func(f shared.Frontend) error) error {
	return withModels(func(dir string) error {
		return a.withStack(ctx, filepath.Join(dir, "s"), demoSlots(dir), run)
	})
}

func demoIntroduction(show *bars) {
	fmt.Fprintf(show.out, "\n  %s\n\n", show.paint("Two slots of one small model, each prepared in a worker process of its own", ansiBold))
	fmt.Fprintf(show.out, "    A  %-10s %-5s the file itself, mapped and locked, is the host buffer\n", demoQ8, "Q8_0")
	fmt.Fprintf(show.out, "    B  %-10s %-5s the host buffer is a copy, and the engine has its own\n\n", demoF16, "F16")
	fmt.Fprintf(show.out, "  Both are asked: %s\n", demoPrompt)
	if legend := show.legend(); legend != "" {
		fmt.Fprint(show.out, "\n"+legend)
	}
}

// demoTitle is a line across the page; number 0 has none.
func demoTitle(show *bars, number int, title string) {
	if number > 0 {
		title = fmt.Sprintf("%d  %s", number, title)
	}
	rule := show.pick("─", "-")
	line := strings.Repeat(rule, 2) + " " + title + " "
	line += strings.Repeat(rule, max(78-len([]rune(line)), 0))
	fmt.Fprintf(show.out, "\n%s\n\n", show.paint(line, ansiBold))
}

// wrapper breaks streamed text into lines at the first space near the right edge.
// Without a width it leaves the text as it is.
type wrapper struct {
	out    io.Writer
	indent string
	width  int
	column int
}

func (w *wrapper) write(text string) error {
	if w.width == 0 {
		_, err := io.WriteString(w.out, text)
		return err
	}
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
