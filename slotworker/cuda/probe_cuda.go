//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// A point of the probe is the median of so many measurements. Each is of several
// copies in a row, about probeBytes together, as a model's tensors are; one before
// them does not count.
const (
	probeRepeats   = 5
	probeBytes     = 4 << 20
	probeMostInRow = 16
	probeLocks     = 3 // how often memory is locked, to measure that
)

// Probe measures how fast copies to the device are. A measurement that failed or
// was given up is made anew by the next caller.
func (d *device) Probe(ctx context.Context) (shared.TransferProbe, error) {
	select {
	case d.probing <- struct{}{}:
	case <-ctx.Done():
		return shared.TransferProbe{}, context.Cause(ctx)
	}
	defer func() { <-d.probing }()
	if d.probed == nil {
		measured, err := d.measure(ctx)
		if err != nil {
			return shared.TransferProbe{}, err
		}
		d.probed = &measured
	}
	given := *d.probed
	given.Points = slices.Clone(given.Points)
	return given, nil
}

// bench is what copies are measured with. All but ctx is the device's.
type bench struct {
	d          *device
	to         buffer
	stream     cu.Stream
	begin, end cu.Event
	pageable   []byte
	pinned     []byte // nil when page-locking was refused
	undo       []func() error
}

// measure takes the sizes that fit into the device's free memory.
func (d *device) measure(ctx context.Context) (probe shared.TransferProbe, err error) {
	b := &bench{d: d}
	defer func() {
		// What cannot be undone because the device is lost says nothing new.
		if left := b.close(); !errors.Is(err, slotworker.ErrDeviceLost) {
			err = errors.Join(err, left)
		}
	}()
	sizes, err := b.room(d.sizes)
	if err != nil {
		return probe, err
	}
	largest := sizes[len(sizes)-1]
	if err := b.tools(largest); err != nil {
		return probe, err
	}
	probe.PinBytesPerSecond, err = b.lock(largest)
	switch {
	case errors.Is(err, slotworker.ErrDeviceLost):
		return probe, err
	case err != nil:
		probe.PinNote = err.Error()
	}
	for _, size := range sizes {
		point := shared.ProbePoint{Bytes: size}
		if point.Pageable, err = b.rate(ctx, b.pageable, size); err != nil {
			return probe, err
		}
		if b.pinned != nil {
			if point.Pinned, err = b.rate(ctx, b.pinned, size); err != nil {
				return probe, err
			}
		}
		probe.Points = append(probe.Points, point)
	}
	return probe, nil
}

// close undoes what was done, the last first.
func (b *bench) close() error {
	var errs []error
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// room gets memory of the device for the largest size that fits.
func (b *bench) room(sizes []int64) ([]int64, error) {
	for len(sizes) > 0 {
		to, err := b.d.allocate(sizes[len(sizes)-1])
		if err == nil {
			b.to = to
			b.undo = append(b.undo, func() error { return b.d.release(to) })
			return sizes, nil
		}
		if sizes = sizes[:len(sizes)-1]; len(sizes) == 0 || !errors.Is(err, cu.OutOfMemory) {
			return nil, err
		}
	}
	return nil, errors.New("there is nothing to probe")
}

// tools makes a stream, two events and pageable memory that is really there.
func (b *bench) tools(bytes int64) (err error) {
	b.pageable, err = unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return shared.Errorf(shared.KindUnavailable, "cannot get %d bytes of host memory: %w", bytes, err)
	}
	b.undo = append(b.undo, func() error { return unix.Munmap(b.pageable) })
	for i := 0; i < len(b.pageable); i += os.Getpagesize() {
		b.pageable[i] = 1
	}
	op := "cannot measure copies to " + b.d.info.Name
	err = b.d.do(op, func() (err error) {
		b.stream, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	if err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return b.d.free(op, b.stream.Destroy) })
	for _, event := range []*cu.Event{&b.begin, &b.end} {
		err := b.d.do(op, func() (err error) {
			*event, err = cu.MakeEvent(cu.DefaultEvent)
			return err
		})
		if err != nil {
			return err
		}
		b.undo = append(b.undo, func() error {
			return b.d.free(op, func() error { return cu.DestroyEvent(event) })
		})
	}
	return nil
}

// lock measures how many bytes a second can be page-locked, and keeps the last block.
func (b *bench) lock(bytes int64) (float64, error) {
	var rates []float64
	for range probeLocks {
		if b.pinned != nil {
			if err := b.d.FreeHost(b.pinned); err != nil {
				return 0, err
			}
			b.pinned, b.undo = nil, b.undo[:len(b.undo)-1]
		}
		err := b.d.do(fmt.Sprintf("cannot page-lock %d bytes of host memory", bytes), func() (err error) {
			start := time.Now()
			b.pinned, err = b.d.lockNew(bytes)
			rates = append(rates, float64(bytes)/max(time.Since(start), 1).Seconds())
			return err
		})
		if err != nil {
			b.pinned = nil
			return 0, err
		}
		b.undo = append(b.undo, func() error { return b.d.FreeHost(b.pinned) })
	}
	return median(rates), nil
}

// rate is how many bytes a second copies of a size from host memory reach.
func (b *bench) rate(ctx context.Context, from []byte, size int64) (float64, error) {
	inRow := min(max(probeBytes/size, 1), probeMostInRow)
	var rates []float64
	for i := range probeRepeats + 1 {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		var ms float64
		err := b.d.do(fmt.Sprintf("cannot measure a copy of %d bytes to %s", size, b.d.info.Name), func() (err error) {
			ms, err = b.run(unsafe.Pointer(unsafe.SliceData(from)), size, inRow)
			return err
		})
		if err != nil {
			return 0, err
		}
		if i > 0 && ms > 0 {
			rates = append(rates, float64(size*inRow)/(ms/1000))
		}
	}
	if len(rates) == 0 {
		return 0, shared.Errorf(shared.KindEngine, "copies of %d bytes to %s are too fast for its clock", size, b.d.info.Name)
	}
	return median(rates), nil
}

// run copies several times and gives the device's own measure of it. It runs on
// the owner.
func (b *bench) run(from unsafe.Pointer, size, times int64) (ms float64, err error) {
	if err := b.begin.Record(b.stream); err != nil {
		return 0, err
	}
	for range times {
		if err := cu.MemcpyHtoDAsync(b.to.at, from, size, b.stream); err != nil {
			return 0, err
		}
	}
	if err := b.end.Record(b.stream); err != nil {
		return 0, err
	}
	if err := b.end.Synchronize(); err != nil {
		return 0, err
	}
	return b.begin.Elapsed(b.end)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
