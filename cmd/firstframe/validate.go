package main

import (
	"fmt"
	"maps"

	hclv2 "github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared/gguf"
)

// diagnostics is what the configuration's parser has to say.
type diagnostics = hclv2.Diagnostics

// loadConfig reads a configuration, printing what is wrong with it.
func (a *app) loadConfig(path string) (*hcl.Config, error) {
	cfg, diags := hcl.Load(path)
	if len(diags) > 0 {
		if err := hcl.WriteDiagnostics(a.errOut, diags, isTerminal(a.errOut)); err != nil {
			return nil, err
		}
	}
	if err := hcl.Err(diags); err != nil {
		return nil, &silentError{err}
	}
	return cfg, nil
}

// validJSON is the document of validate: everything that is wrong, or what the
// configuration declares.
type validJSON struct {
	Valid       bool              `json:"valid"`
	Diagnostics []diagnosticJSON  `json:"diagnostics"`
	Slots       []declaredJSON    `json:"slots"`
	Aliases     map[string]string `json:"aliases"`
}

type diagnosticJSON struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

type declaredJSON struct {
	SlotID    string `json:"slot_id"`
	Model     string `json:"model"`
	ModelPath string `json:"model_path"`
	Device    string `json:"device"`
	Transfer  string `json:"transfer"`
	Preload   bool   `json:"preload"`
}

func toDiagnosticsJSON(diags diagnostics) []diagnosticJSON {
	doc := []diagnosticJSON{}
	for _, d := range diags {
		out := diagnosticJSON{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if !(diagnostics{d}).HasErrors() {
			out.Severity = "warning"
		}
		if d.Subject != nil {
			out.File, out.Line, out.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		}
		doc = append(doc, out)
	}
	return doc
}

func toValidJSON(cfg *hcl.Config, diags diagnostics) validJSON {
	doc := validJSON{Valid: !diags.HasErrors(), Diagnostics: toDiagnosticsJSON(diags), Slots: []declaredJSON{}, Aliases: map[string]string{}}
	if cfg == nil {
		return doc
	}
	for _, s := range cfg.Slots {
		doc.Slots = append(doc.Slots, declaredJSON{s.SlotID, s.Model, s.ModelPath, s.Device, string(s.Transfer), s.Preload})
	}
	maps.Copy(doc.Aliases, cfg.Aliases)
	return doc
}

func (a *app) validateCmd() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate -c FILE|DIR",
		Short: "Check a configuration and its model files without starting anything",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			cfg, diags := hcl.Load(path)
			if cfg != nil {
				diags = append(diags, cfg.CheckModels(trainedTokens, adapterFits)...)
			}
			if err := a.printValid(path, cfg, diags, asJSON); err != nil {
				return err
			}
			if err := hcl.Err(diags); err != nil {
				return &silentError{err}
			}
			return nil
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printValid(path string, cfg *hcl.Config, diags diagnostics, asJSON bool) error {
	if asJSON {
		return a.printJSON(toValidJSON(cfg, diags))
	}
	if err := hcl.WriteDiagnostics(a.errOut, diags, isTerminal(a.errOut)); err != nil {
		return err
	}
	if diags.HasErrors() {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "%s is valid: %d slots, %d aliases\n", path, len(cfg.Slots), len(cfg.Aliases))
	return err
}

// trainedTokens reads a model file's header.
func trainedTokens(path string) (int, error) {
	f, err := gguf.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return f.TrainedTokens(), nil
}

// adapterFits reads the headers of a model and an adapter.
func adapterFits(modelPath, adapterPath string) error {
	f, err := gguf.ReadFile(modelPath)
	if err != nil {
		return err
	}
	_, err = f.AdapterSize(adapterPath)
	return err
}

func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "HCL file, or folder of *.hcl files")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was defined one line above
	}
}
