//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
)

// AllocHost gives page-locked memory that every context of the process may copy
// from: the engine's is one.
func (d *device) AllocHost(bytes int64) (b []byte, err error) {
	err = d.do(fmt.Sprintf("cannot page-lock %d bytes of host memory", bytes), func() (err error) {
		b, err = d.lockNew(bytes)
		return err
	})
	return b, err
}

// lockNew is AllocHost on the owner. cu has nothing that allocates such memory.
func (d *device) lockNew(bytes int64) ([]byte, error) {
	if bytes <= 0 {
		return nil, shared.Errorf(shared.KindInvalid, "cannot page-lock %d bytes of host memory", bytes)
	}
	var at unsafe.Pointer
	code := C.cuMemHostAlloc(&at, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE) //nolint:gocritic // it judges what cgo makes of the call
	if err := result(code); err != nil {
		return nil, err
	}
	d.host[at] = bytes
	return unsafe.Slice((*byte)(at), bytes), nil
}

// FreeHost gives back what AllocHost gave, begun at its first byte.
func (d *device) FreeHost(b []byte) error {
	return d.free("cannot free page-locked host memory", func() error { return d.unlockNew(b) })
}

func (d *device) unlockNew(b []byte) error {
	at := unsafe.Pointer(unsafe.SliceData(b))
	if _, ours := d.host[at]; !ours {
		return shared.Errorf(shared.KindInvalid, "cannot free %d bytes of host memory that %s has not page-locked", len(b), d.info.Name)
	}
	if err := cu.MemFreeHost(at); err != nil {
		return err
	}
	delete(d.host, at)
	return nil
}

// RegisterHost page-locks memory that is there already. Memory that this process
// cannot write to, such as a mapped file, is locked for reading.
func (d *device) RegisterHost(b []byte) error {
	return d.do(fmt.Sprintf("cannot page-lock %d bytes of host memory in place", len(b)), func() error {
		if len(b) == 0 {
			return shared.Errorf(shared.KindInvalid, "there is nothing to page-lock")
		}
		at := unsafe.Pointer(unsafe.SliceData(b))
		err := d.lockInPlace(at, len(b), C.CU_MEMHOSTREGISTER_PORTABLE)
		if errors.Is(err, cu.InvalidValue) {
			err = d.lockInPlace(at, len(b), C.CU_MEMHOSTREGISTER_PORTABLE|C.CU_MEMHOSTREGISTER_READ_ONLY)
		}
		return err
	})
}

func (d *device) lockInPlace(at unsafe.Pointer, bytes int, flags C.uint) error {
	if err := result(C.cuMemHostRegister(at, C.size_t(bytes), flags)); err != nil {
		return err
	}
	d.registered[at] = int64(bytes)
	return nil
}

// UnregisterHost undoes RegisterHost.
func (d *device) UnregisterHost(b []byte) error {
	return d.free("cannot unlock host memory", func() error {
		at := unsafe.Pointer(unsafe.SliceData(b))
		if _, ours := d.registered[at]; !ours {
			return shared.Errorf(shared.KindInvalid, "cannot unlock %d bytes of host memory that %s has not locked", len(b), d.info.Name)
		}
		if err := result(C.cuMemHostUnregister(at)); err != nil {
			return err
		}
		delete(d.registered, at)
		return nil
	})
}
