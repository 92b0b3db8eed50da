package main

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/supervisor"
)

// closeMargin is what the end of a supervisor with all its workers may take
// beyond the time that running requests are given.
const closeMargin = 15 * time.Second

// stackConfig is a supervisor to be started in this process.
type stackConfig struct {
	stateDir string
	slots    []shared.SlotSpec
	aliases  map[string]string
	logger   hclog.Logger
	life     hcl.Life
	// cudaWorker is the program for slots on GPUs; empty means the usual places.
	cudaWorker string
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
	patience time.Duration // for close
}

// startStack opens the state directory, clears up what an earlier supervisor
// left there, and starts supervisor and endpoint.
func (a *app) startStack(ctx context.Context, cfg stackConfig) (*stack, error) {
	engineDir, err := a.ensureEngine(ctx)
	if err != nil {
		return nil, err
	}
	// Slots on GPUs say so when there is none; the others do not need it.
	cudaDir, err := enginelib.LocateCUDA(ctx)
	if err != nil {
		cudaDir = engineDir
	}
	s := &stack{patience: cfg.life.DrainTimeout + closeMargin}
	if err := s.start(ctx, cfg, engineDir, cudaDir); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stack) start(ctx context.Context, cfg stackConfig, engineDir, cudaDir string) error {
	var err error
	if s.state, err = supervisor.OpenStateDir(cfg.stateDir); err != nil {
		return err
	}
	if s.reaped, err = s.state.Reap(ctx); err != nil {
		return err
	}
	s.launcher, err = supervisor.NewWorkerLauncher(supervisor.LauncherConfig{
		Args: []string{workerCommand}, EngineDir: engineDir, State: s.state, Logger: cfg.logger,
		CUDAWorker: cfg.cudaWorker, CUDAEngineDir: cudaDir,
	})
	if err != nil {
		return err
	}
	s.Supervisor, err = supervisor.New(supervisor.Config{
		Slots: cfg.slots, Aliases: cfg.aliases, Launcher: s.launcher, StateDir: s.state.Path(),
		Logger: cfg.logger, DrainTimeout: cfg.life.DrainTimeout, WedgeAfter: cfg.life.WedgeAfter, Heartbeat: cfg.life.Heartbeat,
		Budgets: cfg.life.Budgets, MinResidency: minResidency(cfg.life.MinResidency), Source: cfg.source,
	})
	if err != nil {
		return err
	}
	s.endpoint, err = supervisor.Serve(supervisor.EndpointConfig{State: s.state, Frontend: s.Supervisor, Logger: cfg.logger})
	return err
}

// minResidency passes on that a slot may be evicted at once: to the supervisor,
// 0 means its default.
func minResidency(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// close ends what was started, in reverse order and within a bounded time.
func (s *stack) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
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
