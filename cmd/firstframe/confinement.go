package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared/sandbox"
)

// confinementTimeout bounds a process that only confines itself and says so.
const confinementTimeout = 10 * time.Second

// confinementCmd confines its process as a worker does and says what holds.
func (a *app) confinementCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "confinement",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return a.event(sandbox.Enter(sandbox.Policy{EndWithParent: true, OpenFiles: 4096, OOMScore: 500}))
		},
	}
}

// confinementCheck has a process of its own confined and says what came of it:
// what the kernel offers may still be forbidden to this user or in this container.
func confinementCheck(ctx context.Context) check {
	c := check{Name: "confinement"}
	report, err := tryConfinement(ctx)
	if err != nil {
		c.Detail = "it cannot be tried: " + err.Error()
		return c
	}
	c.OK, c.Detail = len(report.Missing) == 0, "workers are "+report.String()
	return c
}

func tryConfinement(ctx context.Context) (report sandbox.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, confinementTimeout)
	defer cancel()
	own, err := os.Executable()
	if err != nil {
		return report, err
	}
	cmd := exec.CommandContext(ctx, own, "doctor", "confinement")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return report, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return report, nil
}
