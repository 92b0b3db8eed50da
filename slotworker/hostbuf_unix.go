//go:build unix

package slotworker

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(b []byte) error { return unix.Munmap(b) }

func lock(b []byte) error { return unix.Mlock(b) }

func unlock(b []byte) error { return unix.Munlock(b) }

// protect makes the buffer read-only, so that a stray write is a fault and not a wrong answer.
func protect(b []byte) error { return unix.Mprotect(b, unix.PROT_READ) }

// memlockLimit is the limit on locked memory; false when there is none.
func memlockLimit() (uint64, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return 0, false
	}
	return limit.Cur, limit.Cur < math.MaxInt64
}
