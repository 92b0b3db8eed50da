package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
)

// probeTimeout bounds the loading of a library that may be broken in any way.
const probeTimeout = 30 * time.Second

type probeJSON struct {
	Version    string `json:"version"`
	CPUVariant string `json:"cpu_variant"`
}

// probeCmd loads the engine and says which it is. It is a process of its own,
// since a broken library can take its process along.
func (a *app) probeCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "probe",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := enginelib.Locate(cmd.Context())
			if err != nil {
				return err
			}
			engine, err := llamacpp.Open(dir)
			if err != nil {
				return err
			}
			info := engine.Info()
			return a.event(probeJSON{info.Version, info.CPUVariant})
		},
	}
}

// probeEngine loads the engine in a process of its own.
func probeEngine(ctx context.Context) (probeJSON, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var doc probeJSON
	own, err := os.Executable()
	if err != nil {
		return doc, err
	}
	cmd := exec.CommandContext(ctx, own, "engine", "probe")
	cmd.Env = append(os.Environ(), "GGML_NO_BACKTRACE=1")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := strings.TrimSpace(string(exit.Stderr))
		if line := strings.LastIndexByte(said, '\n'); line >= 0 {
			said = said[line+1:]
		}
		return doc, fmt.Errorf("it cannot be loaded: %w: %s", err, said)
	}
	if err == nil {
		err = json.Unmarshal(out, &doc)
	}
	return doc, err
}
