package supervisor

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/firstframe/firstframe/shared"
)

// devices knows what the devices apart from the CPU are. Each is asked once, by a
// process that may take a while, and again only after it could not be. All who want
// to know meanwhile get that answer, also when it is an error, and none waits for
// what another device has to say.
type devices struct {
	launcher   Launcher
	accountant *accountant
	asking     singleflight.Group
	turn       chan struct{} // holds known
	known      map[string]shared.DeviceInfo
}

func newDevices(launcher Launcher, a *accountant) *devices {
	return &devices{launcher: launcher, accountant: a, turn: make(chan struct{}, 1), known: map[string]shared.DeviceInfo{}}
}

// forget has a device asked again, since its driver may be another one by now.
func (d *devices) forget(ctx context.Context, name string) {
	if enter(ctx, d.turn) {
		d.asking.Forget(name)
		delete(d.known, name)
		leave(d.turn)
	}
}

// ask gives a device, whose memory bounds the ledger from then on. All who ask do so
// with the same context: the first one's is what the process for it ends with.
func (d *devices) ask(ctx context.Context, name string) (shared.DeviceInfo, error) {
	answer, err, _ := d.asking.Do(name, func() (any, error) { return d.describe(ctx, name) })
	info, _ := answer.(shared.DeviceInfo)
	return info, err
}

func (d *devices) describe(ctx context.Context, name string) (shared.DeviceInfo, error) {
	if !enter(ctx, d.turn) {
		return shared.DeviceInfo{}, context.Cause(ctx)
	}
	info, ok := d.known[name]
	leave(d.turn)
	if ok {
		return info, nil
	}
	info, err := d.launcher.Device(ctx, name)
	if err != nil {
		return info, err
	}
	if !enter(ctx, d.turn) {
		return info, context.Cause(ctx)
	}
	defer leave(d.turn)
	if info.Memory > 0 {
		d.accountant.bound(name, info.Memory)
	}
	d.known[name] = info
	return info, nil
}
