package slotworker

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapAnonymous asks for huge pages: the first touch of memory is dear on virtual
// machines, and there are 512 times fewer of them.
func mapAnonymous(size int64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	// Advice only: a kernel without huge pages refuses it, and the buffer works all the same.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	return b, nil
}

// prefault brings mapped file pages into this process. Kernels before 5.14 only
// read ahead; the pages are then mapped when the hash touches them.
func prefault(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) {
		return unix.Madvise(b, unix.MADV_WILLNEED)
	}
	return err
}

// enginePath names the inode of an open file, whatever its path names by now.
func enginePath(f *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd())
}
