package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// envStateDir names the state directory of the supervisor to talk to.
const envStateDir = "FIRSTFRAME_STATE_DIR"

// app is the program apart from its process: where it writes, and how it
// reaches a supervisor.
type app struct {
	out, errOut io.Writer
	in          io.Reader
	stateDir    string
	// frontend replaces the running supervisor in tests; nil means attach.
	frontend shared.Frontend
	// settle prepares the process before a command that starts other processes;
	// it may start the program anew. Nil in tests.
	settle func()
}

// supervises marks commands that start a supervisor.
const supervises = "supervises"

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	running := false
	markRunning(root, &running)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !running {
		err = &usageError{err}
	}
	a.tell(cmd, err)
	return exitCode(ctx, err)
}

// tell says what went wrong: as the one JSON document where the command was
// asked for one, else in words.
func (a *app) tell(cmd *cobra.Command, err error) {
	var silent *silentError
	if err == nil || errors.As(err, &silent) {
		return
	}
	var usage *usageError
	wrongUsage := errors.As(err, &usage)
	if wrongUsage {
		err = shared.Errorf(shared.KindInvalid, "%w", err)
	}
	if asJSON, flagErr := cmd.Flags().GetBool("json"); flagErr == nil && asJSON {
		if a.printJSON(toFailure(err, false)) == nil {
			return
		}
	}
	say := visible{a.errOut}
	fmt.Fprintln(say, "firstframe:", err)
	if wrongUsage {
		fmt.Fprintf(a.errOut, "see: %s --help\n", cmd.CommandPath())
	}
	for _, line := range hints(err) {
		fmt.Fprintln(say, line)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "firstframe",
		Short:         "Serve local language models from prepared slots",
		Long:          "firstframe keeps models prepared in slots, one worker process each, and measures where\nthe time to the first streamed chunk goes. Start with: firstframe demo",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noCommand,
		RunE:          helpOnly,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if _, marked := cmd.Annotations[supervises]; marked && a.settle != nil {
				a.settle()
			}
		},
	}
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", os.Getenv(envStateDir),
		"state directory of the supervisor (default $"+envStateDir+" or the per-user runtime folder)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(a.demoCmd(), a.runCmd(), a.serveCmd(), a.validateCmd(), a.planCmd(), a.reloadCmd(), a.slotsCmd(), a.generateCmd(),
		a.prepareCmd(), a.evictCmd(), a.restartCmd(), a.pullCmd(), a.engineCmd(), a.doctorCmd(), a.benchCmd(), a.topCmd(),
		a.pagesCmd(), a.proxyCmd(), a.versionCmd(), a.manCmd(), a.workerCmd())
	return root
}

// attach reaches the running supervisor.
func (a *app) attach(ctx context.Context) (shared.Frontend, func(), error) {
	if a.frontend != nil {
		return a.frontend, func() {}, nil
	}
	return supervisor.Attach(ctx, a.statePath(), hclog.NewNullLogger())
}

func (a *app) statePath() string {
	if a.stateDir != "" {
		return a.stateDir
	}
	return supervisor.DefaultStateDir()
}

// printJSON writes one document.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// progressf tells people what is going on, apart from the output.
func (a *app) progressf(format string, args ...any) {
	fmt.Fprintf(visible{a.errOut}, format+"\n", args...)
}
