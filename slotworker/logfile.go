package slotworker

import (
	"fmt"
	"os"
	"time"
)

// A worker's log is written by native code through fds 1 and 2, so it cannot
// pass a writer that counts. Instead the file is looked at now and then, and
// replaced once it is too large; one older file is kept.
const (
	logLimit = 8 << 20
	logLook  = 5 * time.Second
)

// logFile is the file behind fds 1 and 2.
type logFile struct {
	path  string
	limit int64
	file  *os.File
	// point makes fds 1 and 2 the given file.
	point func(*os.File) error
}

// openLog starts a new log and keeps the one of the last run beside it.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path, limit: logLimit, point: pointOutputs}
	return l, l.replace()
}

// replace moves the log aside and starts a new one.
func (l *logFile) replace() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cannot keep the old log: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close() // fds 1 and 2 still hold the old file
	}
	l.file = file
	return nil
}

// trim replaces a log that has become too large.
func (l *logFile) trim() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot look at the log: %w", err)
	}
	if info.Size() <= l.limit {
		return nil
	}
	if err := l.replace(); err != nil {
		return err
	}
	return l.point(l.file)
}

// watch trims the log for as long as the process lives.
func (l *logFile) watch() {
	for range time.Tick(logLook) {
		if err := l.trim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}
