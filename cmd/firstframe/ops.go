package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

// slotOp is a command that does one thing to one slot.
func (a *app) slotOp(use, short string, op func(context.Context, shared.Frontend, string) (shared.SlotInfo, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use + " SLOT",
		Short: short,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			frontend, done, err := a.attach(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			info, err := op(cmd.Context(), frontend, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(oneSlotJSON{toSlotJSON(info)})
			}
			return slotTable(a.out, shared.SlotList{Slots: []shared.SlotInfo{info}})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) prepareCmd() *cobra.Command {
	return a.slotOp("prepare", "Make a slot resident and wait until it is",
		func(ctx context.Context, f shared.Frontend, slot string) (shared.SlotInfo, error) {
			wait := a.newWaiting()
			defer wait.clear()
			return f.Prepare(ctx, slot, func(p shared.Progress) { wait.show(slot, p) })
		})
}

func (a *app) evictCmd() *cobra.Command {
	var dropHost bool
	cmd := a.slotOp("evict", "Free a slot's device buffers; the host buffer stays unless --drop-host is given",
		func(ctx context.Context, f shared.Frontend, slot string) (shared.SlotInfo, error) {
			return f.Evict(ctx, slot, dropHost)
		})
	cmd.Flags().BoolVar(&dropHost, "drop-host", false, "free the host buffer too")
	return cmd
}

func (a *app) restartCmd() *cobra.Command {
	return a.slotOp("restart", "Replace a slot's worker process, whatever state it is in",
		func(ctx context.Context, f shared.Frontend, slot string) (shared.SlotInfo, error) {
			return f.Restart(ctx, slot)
		})
}
