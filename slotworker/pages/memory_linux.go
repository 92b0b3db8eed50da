package pages

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mappedMemory maps slabs outside the Go heap: inside it they would double what
// the collector lets everything else grow to.
type mappedMemory struct{}

// NewMappedMemory is memory from the system, in huge pages where it allows them.
func NewMappedMemory() Memory { return mappedMemory{} }

func (mappedMemory) Map(bytes int) ([]byte, error) {
	slab, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("cannot map %d bytes for pages: %w", bytes, err)
	}
	// Only advice: without huge pages the slab works as well.
	_ = unix.Madvise(slab, unix.MADV_HUGEPAGE)
	return slab, nil
}

func (mappedMemory) Unmap(slab []byte) error { return unix.Munmap(slab) }
