package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// stopGrace is what a process gets beyond its drain time until the attempt to
// end it counts as failed.
const stopGrace = 10 * time.Second

// evictPause is the time between two attempts to evict from a worker that is
// still busy with what it was told to give up.
const evictPause = 20 * time.Millisecond

// work runs f beside the owner. Its report comes back as a message, which the
// owner takes even while the slot closes.
func (o *owner) work(f func(ctx context.Context) message) context.CancelFunc {
	ctx, cancel := context.WithCancel(o.ctx)
	o.running.Go(func() {
		defer cancel()
		if m := f(ctx); m.ev != nil {
			o.slot.post(m)
		}
	})
	return cancel
}

// relay sends progress of a running work to the owner.
func (o *owner) relay(ep epoch, p shared.Progress) {
	o.slot.post(message{note: func(o *owner) {
		if o.state.epoch == ep && o.state.status == shared.SlotPrefetching {
			o.tell(p)
		}
	}})
}

func (o *owner) launch(ep epoch) {
	o.tell(shared.Progress{Stage: "spawn"})
	id, device, paths, launcher := o.slot.spec.SlotID, o.slot.spec.Device, o.slot.files(), o.slot.env.launcher
	start := time.Now()
	o.stopLaunch = o.work(func(ctx context.Context) message {
		files := make([]os.FileInfo, len(paths))
		for i, path := range paths {
			files[i], _ = os.Stat(path) // a folder is read when it is not there yet
		}
		p, err := launcher.Launch(ctx, id, device, paths...)
		if err != nil {
			return message{ev: evLaunchFailed{epoch: ep, now: time.Now(), err: shared.AsError(err, "launch", id)}}
		}
		end := time.Now()
		return message{ev: evLaunched{epoch: ep, now: end}, note: func(o *owner) {
			o.proc, o.exited, o.files = p, p.Done(), files
			o.pulse.set(o.slot.env.heartbeat)
			o.stages.mark(stageSpawn, start, end)
		}}
	})
}

// stop ends the process. The worker drains first when there is time for it.
func (o *owner) stop(a actStop) {
	p := o.proc
	var drain time.Duration
	if a.drain {
		drain = o.slot.env.drainTimeout
	}
	// The stop has to be finished whatever happens to the slot meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), drain+stopGrace)
	o.running.Go(func() {
		defer cancel()
		if a.kill {
			p.Kill()
		}
		p.Stop(ctx, drain)
		select {
		case <-p.Done(): // the owner sees it by itself
		default:
			o.slot.post(message{ev: evStopped{epoch: a.epoch}})
		}
	})
}

func (o *owner) prefetch(ep epoch) {
	o.hosts++
	spec, worker, expected := o.slot.declaredSpec(), o.proc.Worker(), o.identity
	req := shared.PrefetchRequest{
		Spec:     spec,
		Expected: expected,
		Plan: shared.PrefetchPlan{
			ModelRevision: expected.ModelRevision,
			SlotID:        spec.SlotID,
			HostBufferID:  fmt.Sprintf("%s/host-%d", spec.SlotID, o.hosts),
			TargetDevice:  spec.Device,
			ByteCount:     o.modelBytes,
		},
	}
	o.tell(shared.Progress{Stage: "read", TotalBytes: o.modelBytes})
	start, files, paths := time.Now(), o.files, o.slot.files()
	o.stopWork = o.work(func(ctx context.Context) message {
		if filesReplaced(files, paths) {
			return message{ev: evOutdated{epoch: ep}}
		}
		res, err := worker.Prefetch(ctx, req, func(p shared.Progress) { o.relay(ep, p) })
		if err == nil {
			err = checkHost(res, expected)
		}
		if err != nil {
			return message{ev: evPrepareFailed{epoch: ep, err: shared.AsError(err, "prefetch", spec.SlotID)}}
		}
		if res.HostBufferID == "" {
			res.HostBufferID = req.Plan.HostBufferID
		}
		end := time.Now()
		return message{ev: evPrefetched{epoch: ep}, note: func(o *owner) {
			if o.state.present(ep, workPrefetch) {
				o.host = res
				o.stages.mark(stagePrefetch, start, end)
			}
		}}
	})
}

// filesReplaced reports whether one of the paths names another file than when the
// worker was started, or there are others by now. A worker is confined to the
// files themselves, not to their names.
func filesReplaced(files []os.FileInfo, paths []string) bool {
	if len(files) != len(paths) {
		return true
	}
	for i, path := range paths {
		now, err := os.Stat(path)
		if err == nil && files[i] != nil && !os.SameFile(files[i], now) {
			return true
		}
	}
	return false
}

// checkHost compares what the worker read with what was declared. The worker
// has compared too; this is so that a wrong one is not believed.
func checkHost(res shared.PrefetchResult, expected shared.Identity) error {
	got := expected
	got.ModelRevision, got.Precision, got.TokenizerRevision = res.ModelRevision, res.Precision, res.TokenizerRevision
	return checkIdentity(got, expected)
}

func checkIdentity(got, expected shared.Identity) error {
	if got.Matches(expected) {
		return nil
	}
	differs := expected.Differs(got)
	return &shared.Error{
		Kind:    shared.KindIdentity,
		Field:   differs[0],
		Message: fmt.Sprintf("the worker's %s is not what was declared: %s instead of %s", strings.Join(differs, ", "), got, expected),
	}
}

func (o *owner) activate(ep epoch) {
	id, worker, expected := o.slot.spec.SlotID, o.proc.Worker(), o.identity
	o.tell(shared.Progress{Stage: "transfer"})
	start := time.Now()
	o.stopWork = o.work(func(ctx context.Context) message {
		res, err := worker.Activate(ctx, shared.ActivateRequest{Expected: expected})
		if err == nil {
			err = checkIdentity(res.Identity, expected)
		}
		if err != nil {
			return message{ev: evPrepareFailed{epoch: ep, err: shared.AsError(err, "activate", id)}}
		}
		end := time.Now()
		if res.DeviceBufferID == "" {
			res.DeviceBufferID = fmt.Sprintf("%s/device-%d", id, ep)
		}
		return message{ev: evActivated{epoch: ep, now: end}, note: func(o *owner) {
			if o.state.present(ep, workActivate) {
				o.device = res
				o.need = amount{host: o.host.HostBytes + res.HostBytes, device: res.DeviceBytes}
				o.stages.activated(start, end, res)
			}
		}}
	})
}

func (o *owner) evict(a actEvict) {
	id, worker, patience := o.slot.spec.SlotID, o.proc.Worker(), o.slot.env.drainTimeout
	o.stopWork = o.work(func(ctx context.Context) message {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := worker.Evict(ctx, a.dropHost)
		for shared.KindOf(err) == shared.KindBusy {
			// A preparation that was cancelled here may not have ended there yet.
			select {
			case <-time.After(evictPause):
				_, err = worker.Evict(ctx, a.dropHost)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			return message{ev: evEvictFailed{epoch: a.epoch, err: shared.AsError(err, "evict", id)}}
		}
		return message{ev: evEvicted(a)}
	})
}
