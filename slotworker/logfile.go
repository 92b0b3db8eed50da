package slotworker

import (
	"fmt"
	"os"
	"time"
)

// A worker's log is fd 2, a file that the supervisor opened for appending.
// Native code writes to it too, so no writer can count: the file is looked at
// now and then, and emptied once it is too large.
const (
	logLimit = 32 << 20
	logLook  = 10 * time.Second
)

// watchLog bounds the log for as long as the process lives.
func watchLog(log *os.File, limit int64, look <-chan time.Time) {
	for range look {
		if err := trimLog(log, limit); err != nil {
			fmt.Fprintln(log, err)
			return
		}
	}
}

// trimLog empties a regular file that has become too large.
func trimLog(log *os.File, limit int64) error {
	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("cannot look at the log: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() <= limit {
		return nil
	}
	if err := log.Truncate(0); err != nil {
		return fmt.Errorf("cannot empty the log: %w", err)
	}
	return nil
}
