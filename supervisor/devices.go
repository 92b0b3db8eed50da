package supervisor

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

// devices knows what the devices apart from the CPU are. Each is asked once, by a
// process that may take a while, and again only after it could not be.
type devices struct {
	launcher   Launcher
	accountant *accountant
	turn       chan struct{} // holds known
	known      map[string]shared.DeviceInfo
}

func newDevices(launcher Launcher, a *accountant) *devices {
	return &devices{launcher: launcher, accountant: a, turn: make(chan struct{}, 1), known: map[string]shared.DeviceInfo{}}
}

// forget has a device asked again, since its driver may be another one by now.
func (d *devices) forget(ctx context.Context, name string) {
	if enter(ctx, d.turn) {
		delete(d.known, name)
		leave(d.turn)
	}
}

// ask gives a device, whose memory bounds the ledger from then on.
func (d *devices) ask(ctx context.Context, name string) (shared.DeviceInfo, error) {
	if !enter(ctx, d.turn) {
		return shared.DeviceInfo{}, context.Cause(ctx)
	}
	defer leave(d.turn)
	if info, ok := d.known[name]; ok {
		return info, nil
	}
	info, err := d.launcher.Device(ctx, name)
	if err != nil {
		return info, err
	}
	if info.Memory > 0 {
		d.accountant.bound(name, info.Memory)
	}
	d.known[name] = info
	return info, nil
}
