// Package regular opens regular files and nothing else. A name at which a file is
// expected may lead to a named pipe, whose opening waits for somebody at its other
// end, or to a device, which might act on being opened or never end.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNot is the cause of a refusal: there is something, and it is no regular file.
var ErrNot = errors.New("not a regular file")

// Open opens a file for reading.
func Open(path string) (*os.File, fs.FileInfo, error) { return OpenFile(path, os.O_RDONLY, 0) }

// OpenFile is os.OpenFile for regular files, links followed. It never waits.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = check(path, info)
	} else if flag&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	// The path may have been replaced since, hence without blocking, and again.
	file, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = check(path, info)
	}
	if err != nil {
		_ = file.Close() // nothing was read or written
		return nil, nil, err
	}
	return file, info, nil
}

// Read reads a file of at most so many bytes.
func Read(path string, limit int64) ([]byte, error) {
	file, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", limit)}
	}
	return text, err
}

// Ensure makes an empty file where there is none, for whoever opens it by other
// means, such as to lock it.
func Ensure(path string, perm fs.FileMode) error {
	file, _, err := OpenFile(path, os.O_RDONLY|os.O_CREATE, perm)
	if err != nil {
		return err
	}
	return file.Close()
}

func check(path string, info fs.FileInfo) error {
	mode := info.Mode()
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("a directory, %w", ErrNot)}
	case mode&fs.ModeNamedPipe != 0:
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("a named pipe, %w", ErrNot)}
	default:
		return &fs.PathError{Op: "open", Path: path, Err: ErrNot}
	}
}
