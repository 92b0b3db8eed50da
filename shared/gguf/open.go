package gguf

import (
	"os"
	"syscall"

	"github.com/firstframe/firstframe/shared"
)

// ReadFile reads and checks the headers of a model, whose path names its first or
// only file.
func ReadFile(path string) (*File, error) {
	paths, err := Parts(path)
	if err != nil {
		return nil, err
	}
	m, err := OpenParts(paths...)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	f, err := ReadParts(m.Parts...)
	if err != nil {
		return nil, shared.AsError(err, "read model file "+path, "")
	}
	f.paths = m.Paths
	return f, nil
}

// Open opens a model file for reading and gives its size. It never blocks and
// takes regular files only: a named pipe would wait for a writer, a device
// might act on being opened.
func Open(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, shared.Errorf(shared.KindModelFile, "cannot open model file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, notRegular(path, info.Mode())
	}
	// The path may have been replaced since, hence without blocking, and again.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, shared.Errorf(shared.KindModelFile, "cannot open model file: %w", err)
	}
	info, err = file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = file.Close() // the first error counts
		if err != nil {
			return nil, 0, shared.Errorf(shared.KindModelFile, "cannot open model file: %w", err)
		}
		return nil, 0, notRegular(path, info.Mode())
	}
	return file, info.Size(), nil
}

func notRegular(path string, mode os.FileMode) error {
	what := "not a regular file"
	switch {
	case mode.IsDir():
		what = "a directory, not a file"
	case mode&os.ModeNamedPipe != 0:
		what = "a named pipe, not a regular file"
	}
	return shared.Errorf(shared.KindModelFile, "cannot open model file: %s is %s", path, what)
}
