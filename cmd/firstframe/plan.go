package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
)

// planJSON is the document of plan and reload.
type planJSON struct {
	// Applied is true when the running supervisor now is as the plan says.
	Applied     bool             `json:"applied"`
	Slots       []slotChangeJSON `json:"slots"`
	Aliases     []aliasJSON      `json:"aliases"`
	Diagnostics []diagnosticJSON `json:"diagnostics"`
}

type slotChangeJSON struct {
	SlotID string      `json:"slot_id"`
	Action string      `json:"action"`
	Fields []fieldJSON `json:"fields"`
}

type fieldJSON struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

type aliasJSON struct {
	Alias  string `json:"alias"`
	Action string `json:"action"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
}

func toPlanJSON(p shared.Plan) planJSON {
	doc := planJSON{Slots: []slotChangeJSON{}, Aliases: []aliasJSON{}, Diagnostics: []diagnosticJSON{}}
	for _, s := range p.Slots {
		change := slotChangeJSON{SlotID: s.SlotID, Action: string(s.Action), Fields: []fieldJSON{}}
		for _, f := range s.Fields {
			change.Fields = append(change.Fields, fieldJSON(f))
		}
		doc.Slots = append(doc.Slots, change)
	}
	for _, a := range p.Aliases {
		doc.Aliases = append(doc.Aliases, aliasJSON{a.Alias, string(a.Action), a.Old, a.New})
	}
	return doc
}

func (a *app) planCmd() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan -c FILE|DIR",
		Short: "Show what a configuration would change of the running supervisor",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, diags := hcl.Load(path)
			if err := hcl.Err(diags); err != nil {
				doc := toPlanJSON(shared.Plan{})
				doc.Diagnostics = toDiagnosticsJSON(diags)
				return a.refused(err, doc, asJSON, func() error { return hcl.WriteDiagnostics(a.errOut, diags, isTerminal(a.errOut)) })
			}
			return a.plan(cmd.Context(), cfg, asJSON)
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) plan(ctx context.Context, cfg *hcl.Config, asJSON bool) error {
	d, err := declarationOf(cfg)
	if err != nil {
		return err
	}
	frontend, done, err := a.attach(ctx)
	if err != nil {
		return err
	}
	defer done()
	plan, err := frontend.Plan(ctx, d)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(toPlanJSON(plan))
	}
	return a.printPlan(plan, false)
}

func (a *app) reloadCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running supervisor read its configuration again and apply what changed",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			frontend, done, err := a.attach(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			res, err := frontend.Reload(cmd.Context())
			if err != nil {
				return err
			}
			return a.printReload(res, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printReload(res shared.Reload, asJSON bool) error {
	doc := toPlanJSON(res.Plan)
	doc.Applied = res.Applied
	for _, d := range res.Diagnostics {
		severity := "error"
		if d.Warning {
			severity = "warning"
		}
		doc.Diagnostics = append(doc.Diagnostics, diagnosticJSON{severity, d.Summary, d.Detail, d.File, d.Line, d.Column})
	}
	remarks := func() error {
		for _, d := range res.Diagnostics {
			if _, err := fmt.Fprint(visible{a.errOut}, d.Text); err != nil {
				return err
			}
		}
		return nil
	}
	if !res.Applied {
		err := shared.Errorf(shared.KindConfig, "the configuration was not applied, and nothing has changed")
		return a.refused(err, doc, asJSON, func() error {
			if err := remarks(); err != nil {
				return err
			}
			_, err := fmt.Fprintln(visible{a.errOut}, "firstframe:", err)
			return err
		})
	}
	if asJSON {
		return a.printJSON(doc)
	}
	if err := remarks(); err != nil {
		return err
	}
	return a.printPlan(res.Plan, true)
}

// refused says why a configuration is not usable, and fails the command.
func (a *app) refused(cause error, doc planJSON, asJSON bool, inWords func() error) error {
	say := inWords
	if asJSON {
		say = func() error { return a.printJSON(doc) }
	}
	if err := say(); err != nil {
		return err
	}
	return &silentError{cause}
}

// printPlan shows a plan as people know it from other tools: + is new, ~ is
// changed, - is gone.
func (a *app) printPlan(p shared.Plan, applied bool) error {
	var b strings.Builder
	for _, s := range p.Slots {
		switch s.Action {
		case shared.ActionAdd:
			fmt.Fprintf(&b, "  + slot %q\n", s.SlotID)
		case shared.ActionRemove:
			fmt.Fprintf(&b, "  - slot %q\n", s.SlotID)
		case shared.ActionChange:
			fmt.Fprintf(&b, "  ~ slot %q gets another process\n", s.SlotID)
			for _, f := range s.Fields {
				fmt.Fprintf(&b, "      %s: %s -> %s\n", f.Name, f.Old, f.New)
			}
		default:
			fmt.Fprintf(&b, "    slot %q is kept\n", s.SlotID)
		}
	}
	for _, al := range p.Aliases {
		switch al.Action {
		case shared.ActionAdd:
			fmt.Fprintf(&b, "  + alias %q: %s\n", al.Alias, al.New)
		case shared.ActionRemove:
			fmt.Fprintf(&b, "  - alias %q\n", al.Alias)
		default:
			fmt.Fprintf(&b, "  ~ alias %q: %s -> %s\n", al.Alias, al.Old, al.New)
		}
	}
	title := "Plan"
	if applied {
		title = "Applied"
	}
	fmt.Fprintf(&b, "\n%s: %s", title, p)
	if n := len(p.Aliases); n > 0 {
		fmt.Fprintf(&b, "; %d aliases", n)
	}
	if p.Empty() {
		b.WriteString("; nothing to do")
	}
	_, err := fmt.Fprintln(visible{a.out}, b.String())
	return err
}

// declarationOf is what a configuration declares, with paths that mean the same
// in every process.
func declarationOf(cfg *hcl.Config) (shared.Declaration, error) {
	d := shared.Declaration{Aliases: cfg.Aliases}
	for _, s := range cfg.Slots {
		path, err := filepath.Abs(s.ModelPath)
		if err != nil {
			return shared.Declaration{}, fmt.Errorf("cannot make the path of a model absolute: %w", err)
		}
		s.ModelPath = path
		s.Adapters = slices.Clone(s.Adapters) // replicas share them
		for i := range s.Adapters {
			if s.Adapters[i].Path, err = filepath.Abs(s.Adapters[i].Path); err != nil {
				return shared.Declaration{}, fmt.Errorf("cannot make the path of an adapter absolute: %w", err)
			}
		}
		d.Slots = append(d.Slots, s)
	}
	return d, nil
}
