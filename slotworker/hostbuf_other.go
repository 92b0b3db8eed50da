//go:build !linux

package slotworker

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapAnonymous(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func prefault(b []byte) error { return unix.Madvise(b, unix.MADV_WILLNEED) }

// enginePath is the path: this system has no name for an open file. The file is
// compared once more after the engine has opened it.
func enginePath(f *os.File) string { return f.Name() }
