package main

import (
	"context"
	"errors"
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
	// source reads the configuration again; nil means there is none to read.
	source supervisor.Source
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
	})
	if err != nil {
		return err
	}
	s.Supervisor, err = supervisor.New(supervisor.Config{
		Slots: cfg.slots, Aliases: cfg.aliases, Launcher: s.launcher, StateDir: s.state.Path(),
		Logger: cfg.logger, DrainTimeout: cfg.drain, Source: cfg.source,
	})
	if err != nil {
		return err
	}
	s.endpoint, err = supervisor.Serve(supervisor.EndpointConfig{State: s.state, Frontend: s.Supervisor, Logger: cfg.logger})
	return err
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
