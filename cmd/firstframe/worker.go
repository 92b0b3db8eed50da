package main

import (
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/sandbox"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
)

// workerCommand is the hidden command under which the program is its own worker.
const workerCommand = "slotworker"

func (a *app) workerCmd() *cobra.Command {
	return &cobra.Command{
		Use:                workerCommand,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			code := slotworker.Main(cmd.Context(), slotworker.MainConfig{
				Args:       args,
				OpenEngine: func(dir string) (slotworker.Engine, error) { return llamacpp.Open(dir) },
				Version:    shared.BuildVersion(),
				Confine:    sandbox.Enter,
			})
			if code != 0 {
				return &silentError{shared.Errorf(shared.KindOther, "the worker ended with code %d", code)}
			}
			return nil
		},
	}
}
