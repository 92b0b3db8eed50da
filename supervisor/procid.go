package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// processID names one life of a process: pids are used again, but not with the
// same start.
type processID struct {
	PID   int    `json:"pid"`
	Start string `json:"start,omitempty"` // empty where the system does not tell
}

// identify finds the full name of a process that is there.
func identify(pid int) (processID, error) {
	start, _, err := processStart(pid)
	return processID{PID: pid, Start: start}, err
}

// alive reports whether this very process still runs. Where the system tells no
// start, as it tells none of others to a confined process, any process with the
// pid counts.
func (id processID) alive() bool {
	if id.PID <= 0 {
		return false
	}
	start, dead, err := processStart(id.PID)
	if id.Start == "" || errors.Is(err, fs.ErrPermission) {
		err := syscall.Kill(id.PID, 0)
		return err == nil || errors.Is(err, syscall.EPERM)
	}
	return err == nil && !dead && start == id.Start
}

// proven reports whether the name is good enough to send signals to. Pid 1 never
// is: to its group means to everybody.
func (id processID) proven() bool { return id.PID > 1 && id.Start != "" }

// awaitGone returns once the process does not run any more, or with ctx's error.
// It polls, because the process need not be a child of this one.
func (id processID) awaitGone(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for id.alive() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
