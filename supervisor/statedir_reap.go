package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/firstframe/firstframe/shared/regular"
)

// workerRecord is what a later supervisor has to know of a worker that this one
// may leave behind.
type workerRecord struct {
	processID
	SlotID string `json:"slot"`
}

func writeRecord(dir string, rec workerRecord) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(dir, recordFile), data)
}

// maxRecord bounds a record, and whatever else is one short line.
const maxRecord = 64 << 10

// readRecord gives a record that proves nothing for one that cannot be read.
func readRecord(dir string) workerRecord {
	var rec workerRecord
	data, err := regular.Read(filepath.Join(dir, recordFile), maxRecord)
	if err != nil || json.Unmarshal(data, &rec) != nil {
		return workerRecord{}
	}
	return rec
}

// Reaped is one thing that an earlier supervisor left behind.
type Reaped struct {
	Path   string // what was removed
	SlotID string // whose worker it belonged to, when it is known
	PID    int    // the worker process, when it is known
	Killed bool   // it still ran
}

// Reap kills the workers that an earlier supervisor left running and removes its
// sockets and records. Only a process whose pid and start are those of the record
// is killed. It is called once, before anything is launched or served.
func (s *StateDir) Reap(ctx context.Context) ([]Reaped, error) {
	var found []Reaped
	var errs []error
	endpoint := filepath.Join(s.path, endpointFile)
	switch err := os.Remove(endpoint); {
	case err == nil:
		found = append(found, Reaped{Path: endpoint})
	case !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, err)
	}
	entries, err := os.ReadDir(s.work())
	if err != nil {
		return found, fmt.Errorf("cannot look for what was left behind: %w", errors.Join(append(errs, err)...))
	}
	for _, entry := range entries {
		r, err := reapEntry(ctx, s.work(entry.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, r)
	}
	if err := errors.Join(errs...); err != nil {
		return found, fmt.Errorf("cannot clear up what was left behind: %w", err)
	}
	return found, nil
}

func reapEntry(ctx context.Context, path string) (Reaped, error) {
	rec := readRecord(path)
	r := Reaped{Path: path, SlotID: rec.SlotID, PID: rec.PID}
	if rec.proven() && rec.alive() {
		r.Killed = true
		// A worker leads a group of its own.
		if err := syscall.Kill(-rec.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return r, fmt.Errorf("cannot kill the worker %d of slot %s: %w", rec.PID, rec.SlotID, err)
		}
		if err := rec.awaitGone(ctx); err != nil {
			return r, fmt.Errorf("the worker %d of slot %s does not end: %w", rec.PID, rec.SlotID, err)
		}
	}
	return r, os.RemoveAll(path)
}
