package pages

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/firstframe/firstframe/shared/regular"
)

// File is an open file of FileOps.
type File interface {
	io.Reader
	io.Writer
	io.Closer
}

// FileOps is the file system as the disk tier uses it. Each call says what it is
// for, so that a test can make one kind of call fail.
type FileOps interface {
	MkdirAll(op, dir string) error
	// Create makes a file that must not exist, readable by its owner alone.
	Create(op, name string) (File, error)
	Open(op, name string) (File, error)
	Stat(op, name string) (fs.FileInfo, error)
	List(op, dir string) ([]fs.DirEntry, error)
	Rename(op, from, to string) error
	Remove(op, name string) error
	Touch(op, name string, t time.Time) error
}

// Labels of the disk tier's file operations.
const (
	opOpenDir    = "dir.open"
	opUsage      = "usage"
	opWrite      = "page.write"
	opRead       = "page.read"
	opTouch      = "page.touch"
	opScan       = "scan"
	opEvict      = "evict"
	opQuarantine = "quarantine"
	opReap       = "reap"
)

type osFiles struct{}

// NewOSFiles is the file system of the operating system.
func NewOSFiles() FileOps { return osFiles{} }

func (osFiles) MkdirAll(_, dir string) error { return os.MkdirAll(dir, 0o700) }

func (osFiles) Create(_, name string) (File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Open opens regular files only. Anything else of that name is damage: opening a
// pipe would never return.
func (osFiles) Open(_, name string) (File, error) {
	f, _, err := regular.Open(name)
	if errors.Is(err, regular.ErrNot) {
		return nil, damagedf("it is no regular file")
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFiles) Stat(_, name string) (fs.FileInfo, error) { return os.Lstat(name) }

func (osFiles) List(_, dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

func (osFiles) Rename(_, from, to string) error { return os.Rename(from, to) }

func (osFiles) Remove(_, name string) error { return os.Remove(name) }

func (osFiles) Touch(_, name string, t time.Time) error { return os.Chtimes(name, t, t) }
