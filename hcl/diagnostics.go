package hcl

import (
	"io"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

// maxDiagnosticWidth keeps explanations readable in a terminal.
const maxDiagnosticWidth = 100

// WriteDiagnostics prints diagnostics with the lines of source they point at.
// Values of variables are never printed: they may come from the environment.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, color bool) error {
	files := map[string]*hcl.File{}
	for _, d := range diags {
		if d.Subject == nil || files[d.Subject.Filename] != nil {
			continue
		}
		if text, err := readFile(d.Subject.Filename); err == nil {
			files[d.Subject.Filename] = &hcl.File{Bytes: text}
		}
	}
	return hcl.NewDiagnosticTextWriter(w, files, maxDiagnosticWidth, color).WriteDiagnostics(withoutValues(diags))
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

// CheckModels compares the declarations with the headers of the model files. A
// file that cannot be read is an error here, so that validate shows it; a
// supervisor serves the other slots all the same.
func (c *Config) CheckModels(trained TrainedTokens) hcl.Diagnostics {
	d := &decoder{}
	for _, s := range c.Slots {
		n, err := trained(s.ModelPath)
		if err != nil {
			d.errorf(c.ranges[s.SlotID], "Unusable model file", "Slot %q: %v.", s.SlotID, err)
			continue
		}
		if n > 0 && s.ContextTokens > n {
			d.errorf(c.ranges[s.SlotID+" tokens"], "Context too long",
				"Slot %q: context.tokens is %d, but the model was trained for %d.", s.SlotID, s.ContextTokens, n)
		}
	}
	return d.diags
}
