//go:build !linux

package supervisor

import (
	"os"
	"os/exec"
	"syscall"
)

// ownExecutable names the running program.
func ownExecutable() (string, error) { return os.Executable() }

// workerAttributes gives a worker a session and group of its own, so that a
// Ctrl-C in the supervisor's terminal does not reach it. There is no
// parent-death signal here: only the lifeline tells a worker to end.
func workerAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// reap waits for the end of the child and takes its whole group along.
func (p *workerProcess) reap(cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended is read from the state
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroup()
	p.reaped = true
}
