//go:build cuda

package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"gorgonia.org/cu"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Open takes the device of a name such as cuda:0. Devices are counted like the
// engine counts them: as the driver shows them to this process.
func Open(name string) (slotworker.Device, error) {
	d, err := open(name)
	if err != nil {
		return nil, err // not a nil *device in an interface
	}
	return d, nil
}

func open(name string) (*device, error) {
	ordinal, err := ordinalOf(name)
	if err != nil {
		return nil, err
	}
	d := newDevice(name)
	opened := make(chan error, 1)
	go d.own(ordinal, opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return d, nil
}

// ordinalOf reads the number in a device's name, which has one spelling only.
func ordinalOf(name string) (int, error) {
	digits, isCUDA := strings.CutPrefix(name, "cuda:")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !isCUDA || err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, &shared.Error{Kind: shared.KindConfig, Field: "device", Message: fmt.Sprintf("%q is not a CUDA device; they are named cuda:0, cuda:1 and so on", name)}
	}
	return int(n), nil
}

// take makes the device's primary context the one of the calling thread.
func (d *device) take(ordinal int) error {
	count, err := cu.NumDevices()
	if err != nil {
		return d.failure("cannot count the CUDA devices", err)
	}
	if ordinal >= count {
		return &shared.Error{Kind: shared.KindUnavailable, Field: "device", Message: fmt.Sprintf("there is no device %s: the driver shows %d CUDA devices, counted from 0", d.info.Name, count)}
	}
	if d.dev, err = cu.GetDevice(ordinal); err != nil {
		return d.failure("cannot find "+d.info.Name, err)
	}
	context, err := d.dev.RetainPrimaryCtx()
	if err != nil {
		return d.failure("cannot get a context on "+d.info.Name, err)
	}
	if err = cu.SetCurrentContext(context); err == nil {
		err = d.inspect()
	}
	if err != nil {
		err = d.failure("cannot use "+d.info.Name, err)
		_ = d.leave() // the first error is the one that tells
		return err
	}
	return nil
}

// leave gives the context back, and takes it from the calling thread, which goes
// on to run other goroutines.
func (d *device) leave() error {
	if err := cu.SetCurrentContext(cu.CUContext{}); err != nil {
		return d.failure("cannot leave the context of "+d.info.Name, err)
	}
	if err := d.dev.ReleasePrimaryCtx(); err != nil {
		return d.failure("cannot release the context of "+d.info.Name, err)
	}
	return nil
}

// inspect asks what the device is.
func (d *device) inspect() error {
	var err error
	if d.info.Model, err = d.dev.Name(); err != nil {
		return err
	}
	major, err := d.dev.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return err
	}
	minor, err := d.dev.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return err
	}
	id, err := d.dev.UUID()
	if err != nil {
		return err
	}
	if d.info.Memory, err = d.dev.TotalMem(); err != nil {
		return err
	}
	d.info.Capability = fmt.Sprintf("%d.%d", major, minor)
	d.info.UUID = "GPU-" + id.String() // as the driver's own tools print it
	version := cu.Version()
	d.info.Driver = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	return nil
}
