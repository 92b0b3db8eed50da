package gguf

import (
	"os"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
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
// takes regular files only.
func Open(path string) (*os.File, int64, error) {
	file, info, err := regular.Open(path)
	if err != nil {
		return nil, 0, shared.Errorf(shared.KindModelFile, "cannot open model file: %w", err)
	}
	return file, info.Size(), nil
}
