package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fillDisk is a stand-in for a full disk that touches one process only: a limit
// of file sizes by which no write to a file succeeds. Go programs see an error, as
// with a full disk.
func fillDisk() func(pid int) (func() error, error) {
	return func(pid int) (func() error, error) {
		var before unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
			return nil, fmt.Errorf("cannot read the limit of file sizes of process %d: %w", pid, err)
		}
		full := unix.Rlimit{Cur: 0, Max: before.Max}
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &full, nil); err != nil {
			return nil, fmt.Errorf("cannot limit the file sizes of process %d: %w", pid, err)
		}
		return func() error {
			if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
				return fmt.Errorf("cannot give process %d its limit of file sizes back: %w", pid, err)
			}
			return nil
		}, nil
	}
}
