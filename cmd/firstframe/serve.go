package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
)

// serveDrain is how long running requests may go on after Ctrl-C.
const serveDrain = 5 * time.Second

func (a *app) serveCmd() *cobra.Command {
	var path, level string
	var logJSON bool
	cmd := &cobra.Command{
		Use:   "serve -c FILE|DIR",
		Short: "Start the supervisor and prepare the declared slots",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := hclog.New(&hclog.LoggerOptions{
				Name: "firstframe", Output: a.errOut, Level: hclog.LevelFromString(level), JSONFormat: logJSON,
				Color: hclog.AutoColor, ColorHeaderOnly: true,
			})
			return a.serve(cmd.Context(), path, logger)
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVar(&level, "log-level", "info", "trace, debug, info, warn, error or off")
	cmd.Flags().BoolVar(&logJSON, "log-json", false, "log lines as JSON")
	return cmd
}

func (a *app) serve(ctx context.Context, path string, logger hclog.Logger) (err error) {
	// Before the file is read, so that no change of it is missed.
	watcher, watchErr := hcl.NewWatcher(path)
	if watchErr == nil {
		defer func() { _ = watcher.Close() }() // nothing was written
	}
	cfg, err := a.loadConfig(path)
	if err != nil {
		return err
	}
	declared, err := declarationOf(cfg)
	if err != nil {
		return err
	}
	stateDir := cfg.StateDir
	if a.stateDir != "" || stateDir == "" {
		stateDir = a.statePath()
	}
	s, err := a.startStack(ctx, stackConfig{
		stateDir: stateDir, slots: declared.Slots, aliases: declared.Aliases, logger: logger, drain: serveDrain,
		source: configSource{path: path, started: cfg}.read,
	})
	if err != nil {
		return err
	}
	defer func() {
		logger.Info("stopping")
		if closeErr := s.close(); closeErr != nil && err == nil {
			err = closeErr
		}
	}()
	for _, r := range s.reaped {
		logger.Warn("removed what an earlier supervisor left", "path", r.Path, "slot", r.SlotID, "pid", r.PID, "killed", r.Killed)
	}
	logger.Info("serving", "slots", len(cfg.Slots), "state_dir", s.state.Path())
	preload := map[string]bool{}
	for _, slot := range cfg.Slots {
		preload[slot.SlotID] = slot.Preload
	}
	if watchErr != nil {
		logger.Warn("changes of the configuration are not noticed; use firstframe reload", "error", watchErr)
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	defer reloader{frontend: s, log: logger, watcher: watcher, end: stop}.start(serving)()
	return a.announce(serving, s, preload)
}

// announce prints the slots once every preloaded one is resident or has failed,
// then waits for the end.
func (a *app) announce(ctx context.Context, f shared.Frontend, preload map[string]bool) error {
	said := false
	err := f.WatchSlots(ctx, func(l shared.SlotList) error {
		if said {
			return nil
		}
		for _, s := range l.Slots {
			if preload[s.SlotID] && !settled(s) {
				return nil
			}
		}
		said = true
		if err := slotTable(a.out, l); err != nil {
			return err
		}
		_, err := fmt.Fprintln(a.out, "ready; ask with: firstframe generate --slot", l.Slots[0].SlotID, `"Tell me a story about a fox."`)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// settled reports whether the preparation of a slot has ended, one way or the other.
func settled(s shared.SlotInfo) bool {
	return s.Status.Ready() || s.LastError != "" || s.Process == shared.ProcessFailed
}
