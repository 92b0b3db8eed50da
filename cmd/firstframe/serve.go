package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
)

func (a *app) serveCmd() *cobra.Command {
	var path, level string
	var logJSON bool
	cmd := &cobra.Command{
		Use:         "serve -c FILE|DIR",
		Annotations: map[string]string{supervises: ""},
		Short:       "Start the supervisor and prepare the declared slots",
		Args:        usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("log-level") {
				level = ""
			}
			return a.serve(cmd.Context(), path, level, logJSON)
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVar(&level, "log-level", "info", "trace, debug, info, warn, error or off; before what the configuration says")
	cmd.Flags().BoolVar(&logJSON, "log-json", false, "log lines as JSON")
	return cmd
}

func (a *app) serve(ctx context.Context, path, level string, logJSON bool) (err error) {
	// Before the file is read, so that no change of it is missed.
	watcher, watchErr := hcl.NewWatcher(path)
	if watchErr == nil {
		defer func() { _ = watcher.Close() }() // nothing was written
	}
	cfg, err := a.loadConfig(path)
	if err != nil {
		return err
	}
	cfg.LogLevel = cmp.Or(level, cfg.LogLevel, "info")
	cfg.LogJSON = cfg.LogJSON || logJSON
	logger := hclog.New(&hclog.LoggerOptions{
		Name: "firstframe", Output: a.errOut, Level: hclog.LevelFromString(cfg.LogLevel), JSONFormat: cfg.LogJSON,
		Color: hclog.AutoColor, ColorHeaderOnly: true,
	})
	declared, err := declarationOf(cfg)
	if err != nil {
		return err
	}
	stateDir := cfg.StateDir
	if a.stateDir != "" || stateDir == "" {
		stateDir = a.statePath()
	}
	var web *httpFrontend
	if cfg.HTTP != nil {
		if web, err = listenHTTP(ctx, proxySpec{*cfg.HTTP, cfg.LogLevel, cfg.LogJSON, cfg.OTLPEndpoint}); err != nil {
			return err
		}
	}
	s, err := a.startStack(ctx, stackConfig{
		stateDir: stateDir, slots: declared.Slots, aliases: declared.Aliases, logger: logger, life: cfg.Life,
		cudaWorker: cfg.CUDAWorker,
		source:     configSource{path: path, started: cfg}.read,
	})
	if err != nil {
		return errors.Join(err, web.close())
	}
	defer func() {
		logger.Info("stopping")
		// The proxy first, so that its clients get their answers.
		if closeErr := errors.Join(web.close(), s.close()); closeErr != nil && err == nil {
			err = closeErr
		}
	}()
	for _, r := range s.reaped {
		logger.Warn("removed what an earlier supervisor left", "path", r.Path, "slot", r.SlotID, "pid", r.PID, "killed", r.Killed)
	}
	logger.Info("serving", "slots", len(cfg.Slots), "state_dir", s.state.Path())
	if web != nil {
		if err := web.start(s.state.Path(), a.errOut, logger); err != nil {
			return err
		}
	}
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
	return a.announce(serving, s, preload, web, fmt.Sprintf("ready; ask with: firstframe generate --slot %s %q", cfg.Slots[0].SlotID, "Tell me a story about a fox."))
}

// announce prints the slots once every preloaded one is resident or has failed,
// and what can be done now, then waits for the end. The watch ends before that: each
// further change, and there are some with each request, would cost a list.
func (a *app) announce(ctx context.Context, f shared.Frontend, preload map[string]bool, web *httpFrontend, next string) error {
	var settledList shared.SlotList
	err := f.WatchSlots(ctx, func(l shared.SlotList) error {
		for _, s := range l.Slots {
			if preload[s.SlotID] && !settled(s) {
				return nil
			}
		}
		settledList = l
		return errSeen
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case !errors.Is(err, errSeen):
		return err
	}
	if err := slotTable(a.out, settledList); err != nil {
		return err
	}
	if web != nil {
		if _, err := fmt.Fprintln(a.out, "http at", web.url); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(a.out, next); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// settled reports whether the preparation of a slot has ended, one way or the other.
func settled(s shared.SlotInfo) bool {
	return s.Status.Ready() || s.LastError != "" || s.Process == shared.ProcessFailed
}
