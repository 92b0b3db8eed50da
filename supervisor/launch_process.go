package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/framed"
)

// lifelineFD is where a worker finds its lifeline: a pipe that nobody writes to
// and whose other end only the supervisor holds. Its end of file means that the
// supervisor is gone.
const lifelineFD = 3

// outputPatience bounds how long output is read that somebody else than the
// ended worker still could write.
const outputPatience = 200 * time.Millisecond

// heartbeatPatience is after what time without an answer a worker is not given
// its time to drain.
const heartbeatPatience = 2 * time.Second

var (
	// errEndedEarly: the process ended by itself before it served.
	errEndedEarly = shared.Errorf(shared.KindWorkerLost, "the worker process ended before it could be used")
	errNotStarted = errors.New("the start was given up")
)

// workerProcess is one worker process from its directory to its last log line.
// Three goroutines belong to it: connect makes the plugin connection and ends
// when that is there or has failed; pump reads the standard output to its end;
// watch waits for the exit, clears up and closes done. A fourth, in endPolitely,
// lives from the first attempt to end the process until it has ended.
type workerProcess struct {
	launcher  *WorkerLauncher
	slotID    string
	readable  []string // what it may read beside its own files
	program   program
	dir       string
	log       *os.File
	logOffset int64
	client    *plugin.Client
	streams   *framed.Dialer
	handshake *handshake

	// Set by start, before connected is closed.
	stdout   *os.File
	lifeline *os.File

	connected  chan struct{} // connect has ended; worker or connectErr is set
	worker     shared.Worker
	socket     string // path of the worker's socket
	connectErr error

	exited chan struct{} // the process is reaped
	pumped chan struct{} // its output has been read
	done   chan struct{} // nothing is left of it; exit is set
	exit   ExitInfo

	politely sync.Once
	polite   chan struct{} // go-plugin's Kill has returned

	mu     sync.Mutex
	pid    int  // of the started process
	doomed bool // kill has been called
	reaped bool
}

var _ Process = (*workerProcess)(nil)

func newWorkerProcess(l *WorkerLauncher, slotID, dir string, log *os.File, offset int64) *workerProcess {
	return &workerProcess{
		launcher:  l,
		slotID:    slotID,
		dir:       dir,
		log:       log,
		streams:   shared.NewStreamDialer(filepath.Join(dir, shared.StreamSocket)),
		logOffset: offset,
		handshake: newHandshake(),
		connected: make(chan struct{}),
		exited:    make(chan struct{}),
		pumped:    make(chan struct{}),
		done:      make(chan struct{}),
		polite:    make(chan struct{}),
	}
}

// Worker reaches the worker.
func (p *workerProcess) Worker() shared.Worker { return p.worker }

// Reachable looks for the worker's sockets. The connections that there are go on
// without them, but would be the last ones.
func (p *workerProcess) Reachable() error {
	if p.socket == "" {
		return nil
	}
	for _, path := range []string{p.socket, filepath.Join(p.dir, shared.StreamSocket)} {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return shared.Errorf(shared.KindUnavailable, "the worker's socket %s is gone", path)
		}
	}
	return nil
}

// PID is the process id.
func (p *workerProcess) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Done is closed when the process has ended and nothing is left of it.
func (p *workerProcess) Done() <-chan struct{} { return p.done }

// Exit says how the process ended.
func (p *workerProcess) Exit() ExitInfo {
	select {
	case <-p.done:
		return p.exit
	default:
		return ExitInfo{Code: -1}
	}
}

// connect starts the process and makes the plugin connection.
func (p *workerProcess) connect() {
	defer close(p.connected)
	p.connectErr = func() error {
		if _, err := p.client.Start(); err != nil {
			return err
		}
		protocol, err := p.client.Client()
		if err != nil {
			return err
		}
		raw, err := protocol.Dispense(shared.WorkerPluginName)
		if err != nil {
			return err
		}
		worker, ok := raw.(shared.Worker)
		if !ok {
			return fmt.Errorf("the plugin gave a %T instead of a worker", raw)
		}
		p.worker = worker
		if at := p.client.ReattachConfig(); at != nil && at.Addr.Network() == "unix" {
			p.socket = at.Addr.String()
		}
		return nil
	}()
	if p.PID() == 0 {
		// There is no process whose end anybody could wait for.
		p.exit = ExitInfo{Code: -1}
		p.clearUp()
		close(p.done)
	}
}

// awaitAnswer returns when the worker has answered its first call, or says why
// it will not.
func (p *workerProcess) awaitAnswer(ctx, closing context.Context) error {
	select {
	case <-p.connected:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closing.Done():
		return context.Cause(closing)
	}
	if p.connectErr != nil {
		return p.explain(p.connectErr)
	}
	if _, err := p.worker.Heartbeat(ctx); err != nil {
		if shared.KindOf(err) == shared.KindDeadline {
			<-ctx.Done() // the worker was told the deadline, and its clock was first
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if shared.KindOf(err) == shared.KindWorkerLost {
			return errEndedEarly
		}
		return err
	}
	return nil
}

// awaitExit gives a process that seems to be ending the time for it.
func (p *workerProcess) awaitExit(ctx context.Context) {
	patience := time.NewTimer(exitPatience)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// explain puts what go-plugin says of a failed start into words of our own where
// more is known.
func (p *workerProcess) explain(err error) error {
	if p.PID() == 0 {
		return fmt.Errorf("cannot start the worker: %w", err)
	}
	line, complete := p.handshake.line()
	switch {
	case line == "" && !complete:
		return errEndedEarly
	case !handshakeLike(line):
		return shared.Errorf(shared.KindProtocol, "the worker wrote %q to its standard output instead of the handshake", clip(line, 80))
	default:
		return shared.Errorf(shared.KindProtocol, "the worker's handshake was refused: %w", err)
	}
}

// start is what go-plugin calls to start the process.
func (p *workerProcess) start(cmd *exec.Cmd) error {
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return errors.Join(err, lifelineEnd.Close(), lifeline.Close())
	}
	cmd.Stdout, cmd.Stderr = stdoutEnd, p.log
	cmd.ExtraFiles = []*os.File{lifelineFD - 3: lifelineEnd}
	cmd.SysProcAttr = workerAttributes()
	err = p.launcher.thread.do(func() error { return p.fork(cmd) })
	err = errors.Join(err, lifelineEnd.Close(), stdoutEnd.Close())
	pid := p.PID()
	if pid == 0 {
		return errors.Join(err, lifeline.Close(), stdout.Close())
	}
	p.stdout, p.lifeline = stdout, lifeline
	go p.pump()
	go p.watch(cmd)
	id, err := identify(pid)
	if err == nil {
		err = writeRecord(p.dir, workerRecord{processID: id, SlotID: p.slotID})
	}
	if err != nil {
		p.kill()
		_ = p.handshake.reader.Close() // go-plugin will not read it
		return fmt.Errorf("cannot keep a record of the worker: %w", err)
	}
	return nil
}

// fork starts the process unless it is not wanted any more.
func (p *workerProcess) fork(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doomed {
		return errNotStarted
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.pid = cmd.Process.Pid
	return nil
}

// pump hands the first line of the standard output to go-plugin and writes the
// rest to the log: go-plugin itself stops reading at a long line, and the worker
// would block.
func (p *workerProcess) pump() {
	defer close(p.pumped)
	rest := p.handshake.read(p.stdout)
	// An error here is the end of the output, or a log that cannot be written to;
	// the worker must not block because of that.
	if _, err := io.Copy(p.log, rest); err != nil {
		_, _ = io.Copy(io.Discard, rest)
	}
}

// watch waits for the end of the process and leaves nothing of it.
func (p *workerProcess) watch(cmd *exec.Cmd) {
	defer close(p.done)
	p.reap(cmd)
	_ = p.lifeline.Close()
	_ = p.stdout.SetReadDeadline(time.Now().Add(outputPatience))
	close(p.exited)
	<-p.pumped
	_ = p.stdout.Close()
	<-p.connected
	p.streams.Close()
	p.endPolitely() // there is nobody to be polite to, but go-plugin clears up then
	<-p.polite
	tail, crash := readLogTail(p.log.Name(), p.logOffset)
	p.exit = exitInfo(cmd.ProcessState, tail)
	if p.exit.Signal == "" && p.exit.Code != 0 {
		p.exit.Crash = crash
	}
	p.clearUp()
	p.launcher.log.Info("worker ended", "slot", p.slotID, "pid", p.PID(), "how", p.exit.String())
}

func (p *workerProcess) clearUp() {
	if err := errors.Join(p.log.Close(), os.RemoveAll(p.dir)); err != nil {
		p.launcher.log.Warn("cannot clear up after a worker", "slot", p.slotID, "error", err)
	}
	p.launcher.leave(p)
}

func exitInfo(state *os.ProcessState, tail []string) ExitInfo {
	info := ExitInfo{Code: -1, LogTail: tail}
	if state == nil {
		return info
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		info.Signal = ws.Signal().String()
		return info
	}
	info.Code = state.ExitCode()
	return info
}
