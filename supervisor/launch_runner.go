package supervisor

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
)

// processRunner is a workerProcess as go-plugin wants to see a process.
type processRunner struct {
	p   *workerProcess
	cmd *exec.Cmd
}

// runner is the RunnerFunc of a process. The command that comes in carries the
// variables that go-plugin wants to reach the worker, and nothing else of use.
func (p *workerProcess) runner(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
	return &processRunner{p: p, cmd: p.command(spec.Env)}, nil
}

// Start starts the process.
func (r *processRunner) Start(context.Context) error { return r.p.start(r.cmd) }

// Wait returns when the process has ended. It does not return while the
// connection is still being made: go-plugin leaks one whose process is known to
// have ended.
func (r *processRunner) Wait(context.Context) error {
	<-r.p.exited
	<-r.p.connected
	return nil
}

// Kill ends the process at once.
func (r *processRunner) Kill(context.Context) error {
	r.p.kill()
	return nil
}

// Stdout gives the handshake line and then ends.
func (r *processRunner) Stdout() io.ReadCloser { return r.p.handshake.reader }

// Stderr gives nothing: a worker's standard error is its log file, which keeps
// the last words of a process even when nobody reads them.
func (r *processRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the worker's slot.
func (r *processRunner) Name() string { return r.p.slotID }

// ID is the process id.
func (r *processRunner) ID() string { return strconv.Itoa(r.p.PID()) }

// Diagnose adds nothing to what is said anyway.
func (r *processRunner) Diagnose(context.Context) string { return "" }

// PluginToHost leaves addresses as they are.
func (r *processRunner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin leaves addresses as they are.
func (r *processRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// handshake passes the first line of a process's output on.
type handshake struct {
	reader *io.PipeReader
	writer *io.PipeWriter

	mu       sync.Mutex
	first    string
	complete bool // a newline ended it, or it was too long
}

func newHandshake() *handshake {
	r, w := io.Pipe()
	return &handshake{reader: r, writer: w}
}

// maxHandshake is far more than the longest handshake without certificates.
const maxHandshake = 4096

// read takes the first line from out, passes it on, and gives what follows.
func (h *handshake) read(out *os.File) io.Reader {
	in := bufio.NewReaderSize(endAtDeadline{out}, maxHandshake)
	line, err := in.ReadSlice('\n')
	h.mu.Lock()
	h.first = strings.TrimSpace(string(line))
	h.complete = err == nil || errors.Is(err, bufio.ErrBufferFull)
	h.mu.Unlock()
	_, _ = io.WriteString(h.writer, h.first+"\n") // nobody reads it after a failed start
	_ = h.writer.Close()
	return in
}

// line is the first line, as far as it came.
func (h *handshake) line() (first string, complete bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first, h.complete
}

// handshakeLike reports whether a line has the form of a handshake.
func handshakeLike(line string) bool {
	parts := strings.Split(line, "|")
	_, err := strconv.Atoi(parts[0])
	return err == nil && len(parts) >= 4
}

// endAtDeadline makes the read deadline of a pipe look like its end.
type endAtDeadline struct{ f *os.File }

func (e endAtDeadline) Read(b []byte) (int, error) {
	n, err := e.f.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}
