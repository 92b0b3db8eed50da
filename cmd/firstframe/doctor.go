package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/supervisor"
)

// check is one line of doctor. What fails an essential check keeps slots from
// being served at all.
type check struct {
	Name      string `json:"name"`
	OK        bool   `json:"ok"`
	Essential bool   `json:"essential"`
	Detail    string `json:"detail"`
}

type doctorJSON struct {
	OK     bool    `json:"ok"`
	Checks []check `json:"checks"`
}

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	var o drillOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine allows and what is missing, or how a slot gets over harm",
		Long: "doctor says what this machine allows and what is missing.\n\nWith --drill it does harm to one slot of the running supervisor: it kills the worker, stops\n" +
			"it, removes its socket and lets its writes fail as on a full disk. It says how long the slot\ntook to get over each, and leaves it serving.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.slot != "" {
				o.json = asJSON
				return a.drill(cmd.Context(), o)
			}
			doc := a.examine(cmd.Context())
			if err := a.printChecks(doc, asJSON); err != nil {
				return err
			}
			if !doc.OK {
				return &silentError{errors.New("an essential check failed")}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&o.slot, "drill", "", "do harm to this slot and say how it gets over it")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "drill although requests are running, and cut them off")
	cmd.Flags().DurationVar(&o.within, "within", 30*time.Second, "how long the drill waits for a case to be noticed, and then for recovery")
	cmd.AddCommand(a.confinementCmd())
	return cmd
}

func (a *app) printChecks(doc doctorJSON, asJSON bool) error {
	if asJSON {
		return a.printJSON(doc)
	}
	t := table(a.out)
	for _, c := range doc.Checks {
		mark := "ok"
		switch {
		case !c.OK && c.Essential:
			mark = "MISSING"
		case !c.OK:
			mark = "note"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", mark, c.Name, c.Detail)
	}
	return t.Flush()
}

func (a *app) examine(ctx context.Context) doctorJSON {
	checks := []check{
		{Name: "program", OK: true, Detail: fmt.Sprintf("firstframe %s, %s/%s, %d cores", shared.BuildVersion(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())},
		engineCheck(ctx),
		stateCheck(a.statePath()),
	}
	checks = append(checks, systemChecks()...)
	checks = append(checks, gpuChecks(ctx)...)
	checks = append(checks, confinementCheck(ctx))
	checks = append(checks, a.supervisorChecks(ctx)...)
	doc := doctorJSON{OK: true, Checks: checks}
	for _, c := range checks {
		if c.Essential && !c.OK {
			doc.OK = false
		}
	}
	return doc
}

func engineCheck(ctx context.Context) check {
	c := check{Name: "engine", Essential: true}
	dir, err := enginelib.Locate(ctx)
	if err == nil {
		err = enginelib.Verify(dir)
	}
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	loaded, err := probeEngine(ctx)
	if err != nil {
		c.Detail = fmt.Sprintf("llama.cpp %s in %s is complete, but %v", shared.EngineVersion, dir, err)
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("llama.cpp %s, CPU variant %s, every file verified, in %s", loaded.Version, dash(loaded.CPUVariant), dir)
	return c
}

// stateCheck opens the state directory as serve would, unless serve has it open.
func stateCheck(dir string) check {
	c := check{Name: "state directory", Essential: true}
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		c.OK, c.Detail = true, dir+" will be made by serve"
		return c
	}
	s, err := supervisor.OpenStateDir(dir)
	switch {
	case err == nil:
		c.OK, c.Detail = true, dir+" is private and free"
		if err := s.Close(); err != nil {
			c.OK, c.Detail = false, err.Error()
		}
	case errors.Is(err, supervisor.ErrStateDirInUse):
		c.OK, c.Detail = true, dir+" is used by a running supervisor"
	default:
		c.Detail = err.Error()
	}
	return c
}

// supervisorChecks say whether a supervisor runs, and what its workers measured of
// copies to devices.
func (a *app) supervisorChecks(ctx context.Context) []check {
	c := check{Name: "supervisor"}
	f, done, err := a.attach(ctx)
	if err != nil {
		c.Detail = err.Error()
		return []check{c}
	}
	defer done()
	list, err := f.ListSlots(ctx)
	if err != nil {
		c.Detail = err.Error()
		return []check{c}
	}
	c.OK, c.Detail = true, fmt.Sprintf("running with %d slots", len(list.Slots))
	checks := []check{c}
	for _, s := range list.Slots {
		if s.TransferReason != "" {
			checks = append(checks, check{Name: "transfer of " + s.SlotID, OK: true, Detail: fmt.Sprintf("to %s (%s): %s", s.Device, s.DeviceInfo.Model, s.TransferReason)})
		}
	}
	return checks
}
