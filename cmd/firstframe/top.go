package main

import (
	"context"
	"errors"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

// topPace is the time between two looks at the supervisor.
const topPace = 500 * time.Millisecond

func (a *app) topCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show slots and the phases of recent requests, live",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !isTerminal(a.out) {
				return shared.Errorf(shared.KindInvalid, "top draws on a terminal, and the output is none; firstframe slots --watch writes lines")
			}
			frontend, done, err := a.attach(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return a.top(cmd.Context(), frontend)
		},
	}
}

func (a *app) top(ctx context.Context, f shared.Frontend) error {
	b := newBars(a.out)
	m := topModel{
		paint: b,
		look:  func(after uint64) tea.Msg { return lookAt(ctx, f, after) },
	}
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(a.out),
		tea.WithEnvironment(os.Environ()), tea.WithoutSignalHandler())
	last, err := program.Run()
	if ctx.Err() != nil {
		return nil // Ctrl-C is one way to leave
	}
	if end, ok := last.(topModel); ok && end.err != nil {
		return end.err
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// look is what one look at the supervisor showed.
type look struct {
	at       time.Time
	slots    []shared.SlotInfo
	activity shared.Activity
	err      error
}

func lookAt(ctx context.Context, f shared.Frontend, after uint64) tea.Msg {
	list, err := f.ListSlots(ctx)
	if err != nil {
		return look{err: err}
	}
	activity, err := f.Activity(ctx, after)
	return look{at: time.Now(), slots: list.Slots, activity: activity, err: err}
}
