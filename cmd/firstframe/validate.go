package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared/gguf"
)

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

func (a *app) validateCmd() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "validate -c FILE|DIR",
		Short: "Check a configuration and its model files without starting anything",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.loadConfig(path)
			if err != nil {
				return err
			}
			diags := cfg.CheckModels(func(path string) (int, error) {
				f, err := gguf.ReadFile(path)
				if err != nil {
					return 0, err
				}
				return f.TrainedTokens(), nil
			})
			if err := hcl.Err(diags); err != nil {
				if printErr := hcl.WriteDiagnostics(a.errOut, diags, isTerminal(a.errOut)); printErr != nil {
					return printErr
				}
				return &silentError{err}
			}
			_, err = fmt.Fprintf(a.out, "%s is valid: %d slots, %d aliases\n", path, len(cfg.Slots), len(cfg.Aliases))
			return err
		},
	}
	configFlag(cmd, &path)
	return cmd
}

func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "HCL file, or folder of *.hcl files")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was defined one line above
	}
}
