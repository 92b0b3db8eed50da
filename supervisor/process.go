package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Process is one running worker process.
type Process interface {
	// Worker reaches the worker. It stays usable for calls until the process
	// ends; calls then fail with KindWorkerLost.
	Worker() shared.Worker
	// PID is the process id.
	PID() int
	// Done is closed when the process has really ended.
	Done() <-chan struct{}
	// Exit says how the process ended. It is valid once Done is closed.
	Exit() ExitInfo
	// Reachable reports why nobody could connect to the worker any more, or nil.
	// It looks at files only and does not wait.
	Reachable() error
	// Kill sends SIGKILL to the process's group and returns at once.
	Kill()
	// Stop asks the worker to drain for that long, then ends it politely, then
	// sends SIGKILL to its group. It returns when Done is closed or ctx has
	// ended, and never blocks for longer than its deadlines.
	Stop(ctx context.Context, drain time.Duration)
}

// Launcher starts worker processes.
type Launcher interface {
	// Launch starts the worker of a slot and returns once it answers. A worker
	// that is confined can read its own files and those of the model and its
	// adapters, and no others. When ctx ends first, no process is left behind.
	Launch(ctx context.Context, slotID, device string, files ...string) (Process, error)
	// Device asks what a device apart from the CPU is. It fails with an error about
	// the field device when this machine cannot run slots on it.
	Device(ctx context.Context, name string) (shared.DeviceInfo, error)
}

// ExitInfo is how a process ended.
type ExitInfo struct {
	Code   int    // exit code; -1 when a signal ended it or it is not known
	Signal string // the signal that ended it, such as "killed"; empty otherwise
	// Crash is the signal that made it end itself, such as SIGABRT: a Go program
	// catches it, writes down where it was and exits.
	Crash string
	// LogTail is the end of the worker's log: the failed assertion or the last
	// engine error when there is one, and the last lines.
	LogTail []string
}

// String names the signal or the exit code.
func (e ExitInfo) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	if e.Crash != "" {
		return fmt.Sprintf("signal %s, exit code %d", e.Crash, e.Code)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Cause adds the first line of the log tail, which is the most telling one. A
// process that was killed from outside could not write down why.
func (e ExitInfo) Cause() string {
	if len(e.LogTail) == 0 || e.Signal == "killed" {
		return e.String()
	}
	return e.String() + ": " + e.LogTail[0]
}
