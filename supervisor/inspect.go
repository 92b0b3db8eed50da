package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/firstframe/firstframe/shared"
)

// RunningWorker is a worker process of a running supervisor, as its state
// directory records it. It is for those who want to harm one on purpose.
type RunningWorker struct {
	id  processID
	dir string
}

// FindWorker looks in a state directory for the record of a slot's worker.
func FindWorker(stateDir, slotID string, pid int) (*RunningWorker, error) {
	dirs, err := filepath.Glob(filepath.Join(stateDir, workDir, "*", recordFile))
	if err != nil {
		return nil, err
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		if rec := readRecord(dir); rec.SlotID == slotID && rec.PID == pid && rec.alive() {
			return &RunningWorker{id: rec.processID, dir: dir}, nil
		}
	}
	return nil, shared.Errorf(shared.KindNotFound, "the state directory %s has no record of worker %d of slot %s", stateDir, pid, slotID)
}

// PID is the process id.
func (w *RunningWorker) PID() int { return w.id.PID }

// Alive reports whether this very process still runs.
func (w *RunningWorker) Alive() bool { return w.id.alive() }

// Signal sends a signal to this very process, and to none that has its pid later.
func (w *RunningWorker) Signal(sig syscall.Signal) error {
	if w.id.PID <= 1 || !w.id.alive() {
		return shared.Errorf(shared.KindWorkerLost, "the worker process %d has ended", w.id.PID)
	}
	if err := syscall.Kill(w.id.PID, sig); err != nil {
		return fmt.Errorf("cannot send signal %v to worker %d: %w", sig, w.id.PID, err)
	}
	return nil
}

// RemoveSocket deletes the socket by which the worker is reached.
func (w *RunningWorker) RemoveSocket() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return fmt.Errorf("cannot look for the worker's socket: %w", err)
	}
	removed := false
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			if err := os.Remove(filepath.Join(w.dir, e.Name())); err != nil {
				return fmt.Errorf("cannot remove the worker's socket: %w", err)
			}
			removed = true
		}
	}
	if !removed {
		return errors.New("the worker has no socket that could be removed")
	}
	return nil
}
