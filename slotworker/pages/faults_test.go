package pages

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// faultyFiles fails calls with a label.
type faultyFiles struct {
	FileOps
	mu   sync.Mutex
	fail map[string]error
	// left is how many bytes may be written before the disk is full; -1 is no limit.
	left int
}

func newFaultyFiles() *faultyFiles {
	return &faultyFiles{FileOps: NewOSFiles(), fail: map[string]error{}, left: -1}
}

func (f *faultyFiles) set(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op] = err
}

func (f *faultyFiles) setLeft(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = n
}

func (f *faultyFiles) err(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail[op]
}

func (f *faultyFiles) Create(op, name string) (File, error) {
	if err := f.err(op + ".create"); err != nil {
		return nil, err
	}
	file, err := f.FileOps.Create(op, name)
	return &faultyFile{file, op, f}, err
}

func (f *faultyFiles) Open(op, name string) (File, error) {
	if err := f.err(op + ".open"); err != nil {
		return nil, err
	}
	return f.FileOps.Open(op, name)
}

func (f *faultyFiles) Rename(op, from, to string) error {
	if err := f.err(op + ".rename"); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return f.FileOps.Rename(op, from, to)
}

func (f *faultyFiles) MkdirAll(op, dir string) error {
	if err := f.err(op + ".mkdir"); err != nil {
		return err
	}
	return f.FileOps.MkdirAll(op, dir)
}

type faultyFile struct {
	File
	op  string
	ops *faultyFiles
}

func (f *faultyFile) Write(b []byte) (int, error) {
	f.ops.mu.Lock()
	defer f.ops.mu.Unlock()
	if f.ops.left < 0 || f.op != opWrite {
		return f.File.Write(b)
	}
	n := min(len(b), f.ops.left)
	f.ops.left -= n
	if n < len(b) {
		_, _ = f.File.Write(b[:n])
		return n, &fs.PathError{Op: "write", Path: "page", Err: errNoSpace}
	}
	return f.File.Write(b)
}

var errNoSpace = errors.New("no space left on device")
