package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

// Exit codes; 130 is the shells' code for a program ended by Ctrl-C.
const (
	exitOK            = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNoMatch       = 3
	exitNotResident   = 4
	exitWorkerLost    = 5
	exitEngineMissing = 6
	exitInterrupted   = 130
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// silentError fails the command without a further line: what is wrong was printed.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }
func (e *silentError) Unwrap() error { return e.err }

// helpOnly is for commands that only hold others: without one of those the
// command line is incomplete.
func helpOnly(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return &silentError{&usageError{errors.New("a command is missing")}}
}

// noCommand refuses what is none of the commands, naming the ones that look like it.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if cmd.SuggestionsMinimumDistance = 2; len(cmd.SuggestionsFor(args[0])) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(cmd.SuggestionsFor(args[0]), " or "))
	}
	return &usageError{err}
}

func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("%w: the form is %s", err, cmd.UseLine())}
		}
		return nil
	}
}

func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	default:
		return kindCode(shared.KindOf(err))
	}
}

// kindCode is the exit code of an error kind.
func kindCode(k shared.Kind) int {
	switch k {
	case shared.KindInvalid:
		return exitUsage
	case shared.KindNotFound, shared.KindAmbiguous:
		return exitNoMatch
	case shared.KindNotResident, shared.KindPending:
		return exitNotResident
	case shared.KindWorkerLost:
		return exitWorkerLost
	case shared.KindEngineMissing:
		return exitEngineMissing
	default:
		return exitFailed
	}
}

// markRunning wraps the commands so that what they report can be told from what
// the command line's parser reports: the latter is always wrong usage.
func markRunning(cmd *cobra.Command, running *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*running = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markRunning(sub, running)
	}
}

// hints are the lines below an error: what could be asked for instead, and the
// end of the worker's log.
func hints(err error) []string {
	var e *shared.Error
	if !errors.As(err, &e) {
		return nil
	}
	var lines []string
	for _, c := range e.Candidates {
		lines = append(lines, fmt.Sprintf("  slot %s: model %s, %s", c.SlotID, c.Model, c.Identity))
	}
	for _, l := range e.LogTail {
		lines = append(lines, "  log: "+l)
	}
	return lines
}
