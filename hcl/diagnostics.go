package hcl

import (
	"cmp"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

// maxDiagnostics is how many are kept: whoever has more starts with these.
const maxDiagnostics = 50

func (d *decoder) errorf(rng hcl.Range, summary, format string, args ...any) {
	d.add(hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &rng,
	}})
}

// unlocated reports what no line of source can be shown for.
func (d *decoder) unlocated(summary, format string, args ...any) {
	d.add(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...)}})
}

// notYet is the one way in which this version refuses what a later one will take.
func (d *decoder) notYet(rng hcl.Range, what, name string) {
	d.errorf(rng, "Not supported yet", "The %s %q is not supported by this version yet.", what, name)
}

// full reports whether there is no room for more, so that nothing more need be
// looked for.
func (d *decoder) full() bool { return len(d.diags) >= maxDiagnostics }

// add keeps diagnostics, without what would print the values of variables: they
// may come from the environment.
func (d *decoder) add(diags hcl.Diagnostics) {
	for _, diag := range diags {
		if d.full() {
			d.dropped = true
			return
		}
		diag.Expression, diag.EvalContext, diag.Extra = nil, nil, nil
		if diag.Subject != nil {
			diag.Extra = sourceText(d.texts[diag.Subject.Filename])
		}
		d.diags = append(d.diags, diag)
	}
}

func (d *decoder) finish() hcl.Diagnostics {
	if d.dropped || d.full() {
		d.diags = append(d.diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "More errors", Detail: "There may be more; these are the first.",
		})
	}
	return d.diags
}

// Err is one error for a whole set of diagnostics, or nil when none is an error.
func Err(diags hcl.Diagnostics) error {
	if !diags.HasErrors() {
		return nil
	}
	return shared.Errorf(shared.KindConfig, "the configuration is not usable: %w", diags)
}

// TrainedTokens tells a model file's trained context length, 0 when it is not known.
type TrainedTokens func(path string) (int, error)

// AdapterFits tells whether an adapter's file is one for a model's.
type AdapterFits func(modelPath, adapterPath string) error

// CheckModels compares the declarations with the headers of the model files. A
// file that cannot be read is an error here, so that validate shows it; a
// supervisor serves the other slots all the same. The message names the file,
// also where its path comes from the environment: without it nobody could find
// what is missing, and paths of models are no secrets.
func (c *Config) CheckModels(trained TrainedTokens, fits AdapterFits) hcl.Diagnostics {
	d := &decoder{texts: c.texts}
	last := ""
	for _, s := range c.Slots {
		name := cmp.Or(s.ReplicaOf, s.SlotID)
		if name == last {
			continue // a replica of the one before
		}
		last = name
		n, err := trained(s.ModelPath)
		if err != nil {
			d.errorf(c.ranges[name], "Unusable model file", "Slot %q: %v.", name, err)
			continue
		}
		if n > 0 && s.ContextTokens > n {
			d.errorf(c.ranges[name+" tokens"], "Context too long",
				"Slot %q: the model was trained for %d tokens, which is less than context.tokens.", name, n)
		}
		for i, a := range s.Adapters {
			if err := fits(s.ModelPath, a.Path); err != nil {
				d.errorf(c.ranges[adapterKey(name, i)], "Unusable adapter", "Slot %q: %v.", name, err)
			}
		}
	}
	return d.finish()
}
