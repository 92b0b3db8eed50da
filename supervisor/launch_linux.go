package supervisor

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownExecutable names the running program by a link that stays valid when the
// file it was started from is replaced or removed.
func ownExecutable() (string, error) { return "/proc/self/exe", nil }

// workerAttributes gives a worker a session and group of its own, so that a
// Ctrl-C in the supervisor's terminal does not reach it, and lets the kernel
// kill it when this process ends: one that is stopped reads no lifeline.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the end of the child and takes its whole group along. Until it
// has been reaped its pid cannot belong to another process, so group and child
// are dealt with under the lock that kill takes.
func (p *workerProcess) reap(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroup()
	_ = cmd.Wait() // how it ended is read from the state
	p.reaped = true
}
