//go:build cuda

package cuda

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
)

// buffer is memory of the device.
type buffer struct {
	at    cu.DevicePtr
	bytes int64
}

func (d *device) allocate(bytes int64) (b buffer, err error) {
	err = d.do(fmt.Sprintf("cannot allocate %d bytes of %s", bytes, d.info.Name), func() error {
		if bytes <= 0 {
			return shared.Errorf(shared.KindInvalid, "cannot allocate %d bytes of %s", bytes, d.info.Name)
		}
		at, err := cu.MemAlloc(bytes)
		if err != nil {
			return err
		}
		b = buffer{at: at, bytes: bytes}
		d.buffers[at] = bytes
		return nil
	})
	return b, err
}

func (d *device) release(b buffer) error {
	return d.free("cannot free memory of "+d.info.Name, func() error {
		if _, ours := d.buffers[b.at]; !ours {
			return shared.Errorf(shared.KindInvalid, "cannot free %d bytes of %s that are not allocated", b.bytes, d.info.Name)
		}
		if err := cu.MemFree(b.at); err != nil {
			return err
		}
		delete(d.buffers, b.at)
		return nil
	})
}

// upload copies to the beginning of a buffer and waits for the copy.
func (d *device) upload(to buffer, from []byte) error {
	return d.copy("to", to, from, func(host unsafe.Pointer) error {
		return cu.MemcpyHtoD(to.at, host, int64(len(from)))
	})
}

// download copies from the beginning of a buffer and waits for the copy.
func (d *device) download(to []byte, from buffer) error {
	return d.copy("from", from, to, func(host unsafe.Pointer) error {
		return cu.MemcpyDtoH(host, from.at, int64(len(to)))
	})
}

func (d *device) copy(way string, b buffer, host []byte, do func(unsafe.Pointer) error) error {
	op := fmt.Sprintf("cannot copy %d bytes %s %s", len(host), way, d.info.Name)
	return d.do(op, func() error {
		if size, ours := d.buffers[b.at]; !ours || int64(len(host)) > size || len(host) == 0 {
			return shared.Errorf(shared.KindInvalid, "%s: the buffer has %d", op, size)
		}
		return do(unsafe.Pointer(unsafe.SliceData(host)))
	})
}
