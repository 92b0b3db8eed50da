package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// endPatience is how long anybody waits for a process that has been sent
// SIGKILL. Only one that is stuck inside the kernel takes longer.
const endPatience = 5 * time.Second

// exitPatience is how long a process whose connection is gone may take to exit
// by itself, which tells more about it than our signal.
const exitPatience = time.Second

// maxLogBytes is the size from which a worker's log is set aside at a start.
const maxLogBytes = 4 << 20

// LauncherConfig says how worker processes are started.
type LauncherConfig struct {
	// Executable is the worker program; empty means the program that is running,
	// also when its file has been replaced since.
	Executable string
	// Args come before the arguments that name the slot, such as a subcommand.
	Args []string
	// CUDAWorker is the worker program of slots on cuda:N; empty means that it is
	// looked for as FindCUDAWorker does.
	CUDAWorker string
	// EngineDir is where the engine's library lies; empty leaves it to the worker.
	EngineDir string
	// CUDAEngineDir is the same for slots on cuda:N; empty means EngineDir.
	CUDAEngineDir string
	// Env are further variables in the form NAME=value. Nothing else of this
	// process's own environment reaches a worker.
	Env []string
	// State is the open state directory.
	State *StateDir
	// Logger gets one line for each start and end; nil means no log.
	Logger hclog.Logger
	// StartTimeout is how long a worker may take to answer; 0 means 30 s.
	// Loading a model comes later and does not count.
	StartTimeout time.Duration
	// StopGrace is how long a worker may take to exit once it has been told to;
	// 0 means 1 s.
	StopGrace time.Duration
	// StallPatience is how long requests may stand still while a worker drains: one
	// whose engine is stuck would otherwise hold up the end for all of its time.
	// 0 means 6 s.
	StallPatience time.Duration
}

// Validate reports the first thing that is wrong with the configuration.
func (c LauncherConfig) Validate() error {
	switch {
	case c.State == nil:
		return shared.Errorf(shared.KindConfig, "the launcher needs a state directory")
	case c.StartTimeout < 0:
		return configError("", "start_timeout", "start_timeout is negative")
	case c.StopGrace < 0:
		return configError("", "stop_grace", "stop_grace is negative")
	case c.StallPatience < 0:
		return configError("", "stall_patience", "stall_patience is negative")
	}
	for _, v := range c.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return configError("", "env", fmt.Sprintf("%q has not the form NAME=value", v))
		}
	}
	return nil
}

// WorkerLauncher starts worker processes by go-plugin. Each gets a session, a
// socket directory and a log of its own, and ends when this process does.
type WorkerLauncher struct {
	cfg    LauncherConfig
	log    hclog.Logger
	thread *forkThread

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	next   uint64 // number of the next worker directory
	live   map[*workerProcess]struct{}
}

var _ Launcher = (*WorkerLauncher)(nil)

// NewWorkerLauncher makes a launcher. It has to be closed.
func NewWorkerLauncher(cfg LauncherConfig) (*WorkerLauncher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
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
	cfg.StartTimeout = orDefault(cfg.StartTimeout, 30*time.Second)
	cfg.StopGrace = orDefault(cfg.StopGrace, time.Second)
	cfg.StallPatience = orDefault(cfg.StallPatience, 6*time.Second)
	ctx, cancel := context.WithCancelCause(context.Background())
	return &WorkerLauncher{
		cfg:    cfg,
		log:    cfg.Logger,
		thread: newForkThread(),
		ctx:    ctx,
		cancel: cancel,
		live:   make(map[*workerProcess]struct{}),
	}, nil
}

// Launch starts the worker of a slot.
func (l *WorkerLauncher) Launch(ctx context.Context, slotID, device string, files ...string) (Process, error) {
	program, err := l.program(device)
	if err != nil {
		return nil, shared.AsError(err, "launch", slotID)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.StartTimeout, &shared.Error{
		Kind:    shared.KindUnavailable,
		Message: fmt.Sprintf("the worker did not answer within %v", l.cfg.StartTimeout),
	})
	defer cancel()
	p, err := l.enter(slotID, files, program)
	if err != nil {
		return nil, shared.AsError(err, "launch", slotID)
	}
	start := time.Now()
	p.client = plugin.NewClient(l.clientConfig(p))
	go p.connect()
	if err := p.awaitAnswer(ctx, l.ctx); err != nil {
		if errors.Is(err, errEndedEarly) {
			p.awaitExit(ctx)
		}
		p.kill()
		return nil, l.explainLaunch(p, device, err)
	}
	l.log.Info("worker started", "slot", slotID, "pid", p.PID(), "took", time.Since(start).Round(time.Millisecond))
	return p, nil
}

// launchError waits for the end of a process that never served, and tells what
// is known of it.
func (l *WorkerLauncher) launchError(p *workerProcess, cause error) error {
	e := shared.AsError(cause, "launch", p.slotID)
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		e.Message, e.Err = fmt.Sprintf("%s; the worker process %d cannot be ended", e.Text(), p.PID()), nil
		return e
	}
	exit := p.Exit()
	e.LogTail = exit.LogTail
	if errors.Is(cause, errEndedEarly) {
		e.Message, e.Err = "the worker process ended before it could be used ("+exit.Cause()+")", nil
	}
	return e
}

// Close ends what still runs, at once, and returns when nothing does. A process
// that is stuck inside the kernel is named in the error.
func (l *WorkerLauncher) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	running := make([]*workerProcess, 0, len(l.live))
	for p := range l.live {
		running = append(running, p)
	}
	l.mu.Unlock()

	l.cancel(&shared.Error{Kind: shared.KindShuttingDown, Message: "the supervisor is ending"})
	for _, p := range running {
		p.kill()
	}
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	var stuck []string
	for _, p := range running {
		select {
		case <-p.done:
		case <-patience.C:
			patience.Reset(0)
			stuck = append(stuck, fmt.Sprintf("%s (pid %d)", p.slotID, p.PID()))
		}
	}
	l.thread.stop()
	if len(stuck) > 0 {
		slices.Sort(stuck)
		return shared.Errorf(shared.KindOther, "cannot end the workers of %s", strings.Join(stuck, ", "))
	}
	return nil
}

// enter prepares the directory and the log of a new process, and counts it.
func (l *WorkerLauncher) enter(slotID string, files []string, with program) (*workerProcess, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, context.Cause(l.ctx)
	}
	dir, err := l.makeDir()
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the worker: %w", err)
	}
	log, offset, err := openLog(l.cfg.State.LogPath(slotID))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the worker's log: %w", err), os.RemoveAll(dir))
	}
	p := newWorkerProcess(l, slotID, dir, log, offset)
	p.readable, p.program = readable(files), with
	l.live[p] = struct{}{}
	return p, nil
}

// makeDir makes the next free worker directory. Its name is short because the
// path of a socket cannot be long.
func (l *WorkerLauncher) makeDir() (string, error) {
	for {
		l.next++
		dir := l.cfg.State.work(strconv.FormatUint(l.next, 36))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
			return dir, err
		}
	}
}

func (l *WorkerLauncher) leave(p *workerProcess) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, p)
}

// openLog opens a log for appending and tells where this process's part begins.
func openLog(path string) (*os.File, int64, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	f, info, err := regular.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}
