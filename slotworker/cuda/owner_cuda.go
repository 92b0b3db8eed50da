//go:build cuda

package cuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
)

// device has the context of one GPU.
type device struct {
	info  shared.DeviceInfo // does not change once the device is open
	calls chan call
	done  chan struct{} // closed when the owner has ended

	probing chan struct{}         // held by who probes
	probed  *shared.TransferProbe // of the holder of probing
	sizes   []int64               // that are probed

	// The owner's own.
	dev        cu.Device
	lost       error // what the driver said first
	closed     bool
	host       map[unsafe.Pointer]int64 // page-locked blocks that are out
	registered map[unsafe.Pointer]int64 // memory that was locked in place
	buffers    map[cu.DevicePtr]int64   // memory of the device
}

// call is something to do with the context.
type call struct {
	op    string // for its error: "cannot …"
	frees bool   // tried on a lost device too
	do    func() error
	reply chan error
}

func newDevice(name string) *device {
	return &device{
		info:       shared.DeviceInfo{Name: name},
		calls:      make(chan call),
		done:       make(chan struct{}),
		probing:    make(chan struct{}, 1),
		sizes:      []int64{64 << 10, 1 << 20, 16 << 20, 64 << 20},
		host:       map[unsafe.Pointer]int64{},
		registered: map[unsafe.Pointer]int64{},
		buffers:    map[cu.DevicePtr]int64{},
	}
}

// own opens the device, does what it is asked to, and ends after the call that
// closes the device. The thread is one like others again when it returns.
func (d *device) own(ordinal int, opened chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.done)
	if err := d.take(ordinal); err != nil {
		opened <- err
		return
	}
	opened <- nil
	for !d.closed {
		c := <-d.calls
		c.reply <- d.perform(c)
	}
}

func (d *device) perform(c call) error {
	if d.lost != nil && !c.frees {
		return d.lostError(c.op)
	}
	if err := c.do(); err != nil {
		return d.failure(c.op, err)
	}
	return nil
}

// do has the owner do something and waits for it.
func (d *device) do(op string, fn func() error) error { return d.ask(call{op: op, do: fn}) }

// free is do for what gives memory back.
func (d *device) free(op string, fn func() error) error {
	return d.ask(call{op: op, frees: true, do: fn})
}

func (d *device) ask(c call) error {
	c.reply = make(chan error, 1)
	select {
	case d.calls <- c:
		return <-c.reply
	case <-d.done:
		return shared.Errorf(shared.KindShuttingDown, "%s: %s is closed", c.op, d.info.Name)
	}
}

// Info says what the device is.
func (d *device) Info() shared.DeviceInfo { return d.info }

// Memory asks the driver what is free.
func (d *device) Memory() (free, total int64, err error) {
	err = d.do("cannot ask for the memory of "+d.info.Name, func() (err error) {
		free, total, err = cu.MemInfo()
		return err
	})
	return free, total, err
}

// Close ends the owner and gives the context back. It fails, and closes nothing,
// while memory is out that is to be given back first. On a lost device that cannot
// be; it is closed, and the end of the process gives the memory back.
func (d *device) Close() error {
	closing := false
	err := d.free("cannot close "+d.info.Name, func() error {
		left := fmt.Sprintf("%d page-locked blocks, %d locked ranges and %d buffers are in use", len(d.host), len(d.registered), len(d.buffers))
		empty := len(d.host)+len(d.registered)+len(d.buffers) == 0
		if !empty && d.lost == nil {
			return shared.Errorf(shared.KindBusy, "cannot close %s: %s", d.info.Name, left)
		}
		closing, d.closed = true, true
		if err := d.leave(); err != nil || empty {
			return err
		}
		return d.lostError("cannot free what " + d.info.Name + " has: " + left)
	})
	if closing {
		<-d.done
	}
	if shared.KindOf(err) == shared.KindShuttingDown {
		return nil // it was closed before
	}
	return err
}
