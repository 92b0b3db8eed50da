package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

type versionJSON struct {
	Version string `json:"version"`
	Engine  string `json:"engine"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of the engine it works with",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := versionJSON{shared.BuildVersion(), "llama.cpp " + shared.EngineVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if asJSON {
				return a.printJSON(v)
			}
			_, err := fmt.Fprintf(a.out, "firstframe %s\nengine     %s\nbuilt with %s for %s/%s\n", v.Version, v.Engine, v.Go, v.OS, v.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
