package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// What a companion inherits. The first line on CompanionSpecFD is its spec; the
// end of file after it means that the supervisor has gone or wants it to end.
const (
	CompanionSpecFD     = lifelineFD
	CompanionListenerFD = lifelineFD + 1
)

// CompanionConfig is a process that belongs to the supervisor and is started
// again whenever it ends by itself.
type CompanionConfig struct {
	// Name is for the log.
	Name string
	// Executable is the program; empty means the one that is running.
	Executable string
	// Args are its arguments, which everybody can read.
	Args []string
	// Env is its whole environment.
	Env []string
	// Spec is one line that it reads from CompanionSpecFD: what others must not read.
	Spec []byte
	// Listener is the open socket that it accepts on. It stays open between two
	// lives of the process, so that clients wait for the next one.
	Listener *os.File
	// Output takes what it writes to standard output and error.
	Output io.Writer
	// Logger gets one line for each start and end; nil means no log.
	Logger hclog.Logger
	// Delay is the wait before the first restart, doubled for each one after it
	// up to MaxDelay, and short again once the process has lived for Healthy.
	// 0 means 100 ms, 10 s and 30 s.
	Delay, MaxDelay, Healthy time.Duration
	// StopGrace is how long it may take to end once told to; 0 means 7 s.
	StopGrace time.Duration
}

// Companion is the process kept running. One goroutine owns it, from
// StartCompanion to the end of Close.
type Companion struct {
	cfg    CompanionConfig
	thread *forkThread
	delays *backoff.ExponentialBackOff

	closing chan struct{}
	close   sync.Once
	ended   chan struct{}
}

// StartCompanion starts the process and keeps it running until Close.
func StartCompanion(cfg CompanionConfig) (*Companion, error) {
	if cfg.Executable == "" {
		own, err := ownExecutable()
		if err != nil {
			return nil, fmt.Errorf("cannot find the running program: %w", err)
		}
		cfg.Executable = own
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if slices.Contains(cfg.Spec, '\n') {
		return nil, shared.Errorf(shared.KindConfig, "the spec of %s is not one line", cfg.Name)
	}
	cfg.Healthy = orDefault(cfg.Healthy, 30*time.Second)
	cfg.StopGrace = orDefault(cfg.StopGrace, 7*time.Second)
	c := &Companion{
		cfg: cfg, thread: newForkThread(), closing: make(chan struct{}), ended: make(chan struct{}),
		delays: &backoff.ExponentialBackOff{
			InitialInterval: orDefault(cfg.Delay, 100*time.Millisecond), MaxInterval: orDefault(cfg.MaxDelay, 10*time.Second),
			Multiplier: 2, RandomizationFactor: 0.25,
		},
	}
	c.delays.Reset()
	go c.run()
	return c, nil
}

// Close tells the process to end, kills it after its grace or when ctx ends, and
// returns when it is gone.
func (c *Companion) Close(ctx context.Context) error {
	c.close.Do(func() { close(c.closing) })
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w", c.cfg.Name, context.Cause(ctx))
	}
}

func (c *Companion) run() {
	defer close(c.ended)
	defer c.thread.stop()
	for {
		started := time.Now()
		err := c.live()
		select {
		case <-c.closing:
			return
		default:
		}
		if time.Since(started) >= c.cfg.Healthy {
			c.delays.Reset()
		}
		wait := c.delays.NextBackOff()
		c.cfg.Logger.Error("frontend ended and will be started again", "frontend", c.cfg.Name, "how", err, "in", wait.Round(time.Millisecond))
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-c.closing:
			again.Stop()
			return
		}
	}
}

// live is one life of the process, to its very end.
func (c *Companion) live() error {
	specEnd, spec, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = spec.Close() }() // nothing is lost in it
	cmd := exec.Command(c.cfg.Executable, c.cfg.Args...)
	cmd.Env = append([]string{}, c.cfg.Env...) // nil would mean this process's own
	cmd.Env = append(cmd.Env, raceEnvironment()...)
	cmd.Stdout, cmd.Stderr = c.cfg.Output, c.cfg.Output
	cmd.ExtraFiles = []*os.File{CompanionSpecFD - 3: specEnd, CompanionListenerFD - 3: c.cfg.Listener}
	cmd.SysProcAttr = workerAttributes()
	cmd.WaitDelay = endPatience // for output that somebody else could still write
	err = c.thread.do(cmd.Start)
	err = errors.Join(err, specEnd.Close())
	if err != nil {
		return err
	}
	pid := cmd.Process.Pid
	c.cfg.Logger.Info("frontend started", "frontend", c.cfg.Name, "pid", pid)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	_ = spec.SetWriteDeadline(time.Now().Add(c.cfg.StopGrace))
	if _, err := spec.Write(append(slices.Clone(c.cfg.Spec), '\n')); err != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it did not read, and may be gone already
		return errors.Join(err, <-exited)
	}
	select {
	case err := <-exited:
		if err == nil {
			err = errors.New("it ended without being told to")
		}
		return err
	case <-c.closing:
	}
	_ = spec.Close()
	grace := time.NewTimer(c.cfg.StopGrace)
	defer grace.Stop()
	select {
	case err = <-exited:
	case <-grace.C:
		_ = syscall.Kill(-pid, syscall.SIGKILL) // its exit is waited for
		err = <-exited
	}
	c.cfg.Logger.Info("frontend ended", "frontend", c.cfg.Name, "pid", pid)
	return err
}
