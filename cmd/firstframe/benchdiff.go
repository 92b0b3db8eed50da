package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/internal/bench/report"
	"github.com/firstframe/firstframe/shared"
)

func (a *app) benchDiffCmd() *cobra.Command {
	var cfg bench.DiffConfig
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two documents of bench; exit 1 when something has become slower",
		Long: "Compare two documents of bench, or two folders that --out wrote. A figure that both have and that is worse\n" +
			"by the threshold is a regression, unless it differs by less than --least. Ratios above 1 are worse.",
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := cfg.Validate(); err != nil {
				return &usageError{err}
			}
			before, err := readBench(args[0])
			if err != nil {
				return err
			}
			after, err := readBench(args[1])
			if err != nil {
				return err
			}
			return a.benchDiff(bench.Differ(before, after, cfg), asJSON)
		},
	}
	cmd.Flags().Float64Var(&cfg.Threshold, "threshold", 1.25, "ratio from which on a figure is a regression")
	cmd.Flags().Float64Var(&cfg.LeastMS, "least", 0.1, "difference in milliseconds that never is one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readBench reads a document, or that of a folder.
func readBench(path string) (bench.Document, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, report.JSONFile)
	}
	var doc bench.Document
	data, err := os.ReadFile(path)
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return doc, shared.Errorf(shared.KindInvalid, "cannot read %s: %w", path, err)
	}
	if doc.Benchmark != bench.Name {
		return doc, shared.Errorf(shared.KindInvalid, "%s is not a document of bench", path)
	}
	return doc, nil
}

func (a *app) benchDiff(d bench.Diff, asJSON bool) error {
	say := a.printDiff
	if asJSON {
		say = func(d bench.Diff) error { return a.printJSON(d) }
	}
	if err := say(d); err != nil {
		return err
	}
	if d.Regressed > 0 {
		return &silentError{errors.New("there are regressions")}
	}
	return nil
}

func (a *app) printDiff(d bench.Diff) error {
	w := table(a.out)
	fmt.Fprintln(w, "\tOLD\tNEW\tRATIO\t")
	for _, c := range d.Changes {
		mark := ""
		if c.Regressed {
			mark = "regression"
		}
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.2f\t%s\n", c.What, c.Old, c.New, c.Ratio, mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range d.Remarks {
		fmt.Fprintln(a.out, r)
	}
	for _, what := range d.OnlyOld {
		fmt.Fprintln(a.out, "only the old one has", what)
	}
	for _, what := range d.OnlyNew {
		fmt.Fprintln(a.out, "only the new one has", what)
	}
	_, err := fmt.Fprintf(a.out, "%d of %d figures are worse by %.2f or more\n", d.Regressed, len(d.Changes), d.Threshold)
	return err
}
