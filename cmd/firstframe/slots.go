package main

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

type slotsJSON struct {
	Slots   []slotJSON        `json:"slots"`
	Aliases map[string]string `json:"aliases"`
	Budgets []budgetJSON      `json:"budgets"`
}

type budgetJSON struct {
	Device string `json:"device"`
	Limit  int64  `json:"limit"`
	Held   int64  `json:"held"`
}

func toSlotsJSON(l shared.SlotList) slotsJSON {
	doc := slotsJSON{Slots: []slotJSON{}, Aliases: l.Aliases, Budgets: []budgetJSON{}}
	for _, b := range l.Budgets {
		doc.Budgets = append(doc.Budgets, budgetJSON(b))
	}
	if doc.Aliases == nil {
		doc.Aliases = map[string]string{}
	}
	for _, s := range l.Slots {
		doc.Slots = append(doc.Slots, toSlotJSON(s))
	}
	return doc
}

func (a *app) slotsCmd() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "slots",
		Short: "Show the slots of the running supervisor",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			frontend, done, err := a.attach(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			if watch {
				return a.watchSlots(cmd.Context(), frontend, asJSON)
			}
			list, err := frontend.ListSlots(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(toSlotsJSON(list))
			}
			return slotTable(a.out, list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; with --watch one document a line")
	cmd.Flags().BoolVar(&watch, "watch", false, "print again after each change, until interrupted")
	return cmd
}

func (a *app) watchSlots(ctx context.Context, f shared.Frontend, asJSON bool) error {
	err := f.WatchSlots(ctx, func(l shared.SlotList) error {
		if asJSON {
			return a.event(toSlotsJSON(l))
		}
		if isTerminal(a.out) {
			if _, err := io.WriteString(a.out, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
		}
		return slotTable(a.out, l)
	})
	if ctx.Err() != nil {
		return nil // Ctrl-C is how one leaves
	}
	return err
}

// slotTable prints one line a slot, and the errors below it.
func slotTable(w io.Writer, l shared.SlotList) error {
	w = visible{w}
	t := table(w)
	fmt.Fprintln(t, "SLOT\tMODEL\tPRECISION\tSTATUS\tPROCESS\tPID\tRESTARTS\tHOST\tDEVICE\tCONTEXT\tIN FLIGHT")
	for _, s := range l.Slots {
		status := string(s.Status)
		if s.Status == shared.SlotPrefetching && s.Progress.Stage != "" {
			status += " (" + s.Progress.Stage + ")"
		}
		host := size(s.HostBytes)
		if s.Pinned {
			host += " locked"
		}
		device := size(s.DeviceBytes)
		if s.Device != shared.CPUDevice {
			device += " " + s.Device
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%d\n", s.SlotID, s.Model, dash(s.Identity.Precision), status,
			s.Process, number(s.PID), s.Restarts, host, device, contextSize(s), s.InFlight)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range l.Budgets {
		fmt.Fprintf(w, "%s memory: %s of %s held\n", b.Device, humanize.IBytes(uint64(b.Held)), humanize.IBytes(uint64(b.Limit)))
	}
	for _, s := range l.Slots {
		for _, a := range s.Adapters {
			fmt.Fprintf(w, "%s: adapter %s × %g\n", s.SlotID, a.Path, a.Scale)
		}
		if s.LastError != "" {
			fmt.Fprintf(w, "%s: %s\n", s.SlotID, s.LastError)
		}
		if s.TransferReason != "" {
			fmt.Fprintf(w, "%s: transfer %s\n", s.SlotID, s.TransferReason)
		}
		if s.PinNote != "" {
			fmt.Fprintf(w, "%s: not locked: %s\n", s.SlotID, s.PinNote)
		}
	}
	return nil
}

func contextSize(s shared.SlotInfo) string {
	if s.ContextTokens == 0 {
		return "-"
	}
	return fmt.Sprintf("%d × %d", s.Parallel, s.ContextTokens)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func size(n int64) string {
	if n <= 0 {
		return "-"
	}
	return humanize.IBytes(uint64(n))
}
