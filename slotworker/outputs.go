//go:build unix

package slotworker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
)

// lifelineFD is the read end of a pipe whose write end only the supervisor holds.
const lifelineFD = 3

// redirect keeps the host's end of fd 1 for the handshake and points fd 1 at the
// log, which fd 2 is from the start. The handshake passes through a pipe, since the name of the
// socket, which this process has to unlink when it ends, is only in there.
func redirect() (*ownSocket, error) {
	kept, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, lifelineFD+1)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the handshake's output: %w", err)
	}
	host := os.NewFile(uintptr(kept), "handshake")
	if err := dupTo(2, 1); err != nil {
		return nil, fmt.Errorf("cannot point fd 1 at the log: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the handshake's pipe: %w", err)
	}
	os.Stdout = w
	socket := &ownSocket{}
	go socket.passHandshake(r, host)
	return socket, nil
}

// ownSocket is the socket that this process listens on, known once the
// handshake has been written. The one for streams lies beside it.
type ownSocket struct {
	path atomic.Pointer[string]
}

// passHandshake reads the one line of the handshake, notes the socket and hands
// the line to the host. The socket is noted first: from the host's answer on it
// can be needed.
func (s *ownSocket) passHandshake(from io.Reader, host io.WriteCloser) {
	line, err := bufio.NewReader(from).ReadString('\n')
	if err == nil {
		if path, ok := socketOf(line); ok {
			s.path.Store(&path)
		}
		_, err = io.WriteString(host, line)
	}
	if err = errors.Join(err, host.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "the handshake could not be handed to the host:", err)
	}
}

// socketOf finds the path in a handshake line: core version, protocol version,
// network, address, protocol and more, separated by bars.
func socketOf(line string) (string, bool) {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[2] != "unix" {
		return "", false
	}
	return parts[3], true
}

// exit ends the process at once, also while native code is stuck.
func (s *ownSocket) exit() {
	s.unlink()
	os.Exit(0)
}

// endBecause ends the process with its last words.
func (s *ownSocket) endBecause(err error) {
	fmt.Fprintln(os.Stderr, "error: the worker ends:", err)
	s.unlink()
	os.Exit(1)
}

func (s *ownSocket) unlink() {
	if path := s.path.Load(); path != nil {
		_ = unix.Unlink(*path)
		_ = unix.Unlink(filepath.Join(filepath.Dir(*path), shared.StreamSocket))
	}
}

// lifeline tells when the supervisor has gone, however it went.
type lifeline struct{ pipe *os.File }

func openLifeline() (*lifeline, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(lifelineFD, &stat); err != nil {
		return nil, fmt.Errorf("fd %d is not the supervisor's lifeline: %w", lifelineFD, err)
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFSOCK {
		return nil, fmt.Errorf("fd %d is not the supervisor's lifeline but a file", lifelineFD)
	}
	unix.CloseOnExec(lifelineFD)
	return &lifeline{pipe: os.NewFile(lifelineFD, "lifeline")}, nil
}

// watch ends the process once the other end is closed. Nothing is ever written to it.
func (l *lifeline) watch(socket *ownSocket) {
	_, _ = io.Copy(io.Discard, l.pipe)
	socket.exit()
}

// forbidCoreDumps keeps prompts and weights out of files that nobody asked for.
func forbidCoreDumps() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("cannot forbid core dumps: %w", err)
	}
	return nil
}
