package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// closeTimeout bounds the end of a supervisor with all its workers. Requests
// that still run get most of it.
const closeTimeout = 20 * time.Second

// stackConfig is a supervisor to be started in this process.
type stackConfig struct {
	stateDir string
	slots    []shared.SlotSpec
	aliases  map[string]string
	logger   hclog.Logger
	// drain is how long requests may go on when their slot stops.
	drain time.Duration
}

// stack is a running supervisor with everything below and around it.
type stack struct {
	*supervisor.Supervisor
	state    *supervisor.StateDir
	launcher *supervisor.WorkerLauncher
	endpoint *supervisor.Endpoint
	reaped   []supervisor.Reaped
}

// startStack opens the state directory, clears up what an earlier supervisor
// left there, and starts supervisor and endpoint.
func (a *app) startStack(ctx context.Context, cfg stackConfig) (*stack, error) {
	engineDir, err := a.ensureEngine(ctx)
	if err != nil {
		return nil, err
	}
	s := &stack{}
	if err := s.start(ctx, cfg, engineDir); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stack) start(ctx context.Context, cfg stackConfig, engineDir string) error {
	var err error
	if s.state, err = supervisor.OpenStateDir(cfg.stateDir); err != nil {
		return err
	}
	if s.reaped, err = s.state.Reap(ctx); err != nil {
		return err
	}
	s.launcher, err = supervisor.NewWorkerLauncher(supervisor.LauncherConfig{
		Args: []string{workerCommand}, EngineDir: engineDir, State: s.state, Logger: cfg.logger,
		Readable: modelFiles(cfg.slots),
	})
	if err != nil {
		return err
	}
	s.Supervisor, err = supervisor.New(supervisor.Config{
		Slots: cfg.slots, Aliases: cfg.aliases, Launcher: s.launcher, StateDir: s.state.Path(),
		Logger: cfg.logger, DrainTimeout: cfg.drain,
	})
	if err != nil {
		return err
	}
	s.endpoint, err = supervisor.Serve(supervisor.EndpointConfig{State: s.state, Frontend: s.Supervisor, Logger: cfg.logger})
	return err
}

// modelFiles gives each slot's worker its model. The folder is left to it where
// the file is not there yet or is one of several parts.
func modelFiles(slots []shared.SlotSpec) func(slotID string) []string {
	paths := map[string]string{}
	for _, s := range slots {
		paths[s.SlotID] = s.ModelPath
	}
	return func(slotID string) []string {
		// A replica, SLOT/N, has its slot's model.
		name, _, _ := strings.Cut(slotID, "/")
		path, ok := paths[slotID]
		if !ok {
			path = paths[name]
		}
		if path == "" {
			return nil
		}
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if _, err := os.Stat(path); err != nil || strings.Contains(filepath.Base(path), "-of-") {
			return []string{filepath.Dir(path)}
		}
		return []string{path}
	}
}

// close ends what was started, in reverse order and within closeTimeout.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if s.Supervisor != nil {
		errs = append(errs, s.Close(ctx))
	}
	if s.endpoint != nil {
		errs = append(errs, s.endpoint.Close(ctx))
	}
	if s.launcher != nil {
		errs = append(errs, s.launcher.Close())
	}
	if s.state != nil {
		errs = append(errs, s.state.Close())
	}
	return errors.Join(errs...)
}
