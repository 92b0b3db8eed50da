package supervisor

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// launch starts the next process of the slot.
func (t *transition) launch() {
	t.process = shared.ProcessStarting
	t.epoch++
	t.do(actLaunch{epoch: t.epoch})
}

func (t *transition) onLaunched(e evLaunched) {
	if e.epoch != t.epoch || t.process != shared.ProcessStarting {
		t.do(actFault{"a process came up that was not being started"})
		return
	}
	t.process = shared.ProcessUp
	t.heard, t.moved, t.progress = e.now, e.now, 0
	t.restart = false // when it was to be given up for a restart, it is that restart
	if t.closing {
		t.stopping = true
		t.do(actStop{epoch: t.epoch})
		return
	}
	for _, call := range t.restarters {
		t.do(actDone{call})
	}
	t.restarters = nil
}

func (t *transition) onLaunchFailed(e evLaunchFailed) {
	if e.epoch != t.epoch || t.process != shared.ProcessStarting {
		t.do(actFault{"a start failed that was not going on"})
		return
	}
	switch {
	case t.closing:
		t.process = shared.ProcessStopped
	case t.restart:
		t.restart = false
		t.launch()
	default:
		for _, call := range t.restarters {
			t.do(actRefuse{call, e.err})
		}
		t.restarters = nil
		t.crashed(e.now, e.err)
	}
}

func (t *transition) onExited(e evExited) {
	if e.epoch != t.epoch || t.process != shared.ProcessUp {
		t.do(actFault{"a process ended that was not there"})
		return
	}
	if t.leases > 0 {
		t.do(actCancelLeases{epoch: t.epoch, err: e.err})
	}
	t.orphans += t.leases
	err := e.err
	if t.cause != nil {
		err = t.cause
	}
	t.status, t.host, t.work, t.leases = shared.SlotEmpty, false, workNone, 0
	t.cancelling, t.dropHost, t.stopping, t.stuck, t.cause = false, false, false, false, nil
	t.room = false
	t.evictorsDone() // nothing is loaded any more
	switch {
	case t.closing:
		t.process = shared.ProcessStopped
	case t.restart:
		t.restart = false
		t.launch()
	default:
		t.crashed(e.now, err)
	}
}

// crashed decides about a process that ended, or never came up, unasked. The
// first end opens an interval, within which so many restarts are made.
func (t *transition) crashed(now time.Time, err *shared.Error) {
	p := t.rules.restart
	if t.window.IsZero() || now.Sub(t.window) >= p.Interval {
		t.window, t.crashes = now, 0
	}
	t.crashes++
	t.lastErr = err
	if t.crashes <= p.Attempts && !permanent(err) {
		t.process = shared.ProcessBackoff
		t.do(actStartBackoff{crashes: t.crashes})
		return
	}
	t.process = shared.ProcessFailed
	if p.Mode != shared.RestartFail && !permanent(err) {
		t.resumes = true
		t.do(actAwaitInterval{rest: t.window.Add(p.Interval).Sub(now)})
	}
	t.refuseWaiters(t.hopeless())
}

// recycle ends a process whose state cannot be trusted. Its end counts as a crash.
func (t *transition) recycle(cause *shared.Error) {
	if t.stopping {
		return
	}
	if cause != nil && cause.Kind == shared.KindWorkerLost {
		cause = nil // the exit that follows tells more
	}
	t.stopping, t.cause = true, cause
	if cause != nil {
		t.lastErr = cause
	}
	t.do(actStop{epoch: t.epoch})
}

func (t *transition) onStopped(e evStopped) {
	if e.epoch != t.epoch || t.process != shared.ProcessUp || !t.stopping {
		return // it has ended, as it should
	}
	t.stuck = true
	t.lastErr = refusal(shared.KindUnavailable, "the worker process could not be ended")
	for _, call := range t.restarters {
		t.do(actRefuse{call, t.lastErr})
	}
	t.restarters = nil
	t.refuseWaiters(t.lastErr)
}

// onOutdated replaces a process that was confined to a file which is no longer
// the model. It has done nothing wrong, so its end is no crash.
func (t *transition) onOutdated(e evOutdated) {
	if !t.present(e.epoch, workPrefetch) {
		return
	}
	t.work = workNone
	switch {
	case t.stopping:
	case t.cancelling:
		t.settle(false)
	default:
		t.stopping, t.restart = true, true
		t.do(actStop{epoch: t.epoch})
	}
}

func (t *transition) activate() {
	t.work = workActivate
	t.do(actActivate{epoch: t.epoch})
}

func (t *transition) onPrefetched(e evPrefetched) {
	if !t.present(e.epoch, workPrefetch) {
		return
	}
	t.work, t.host = workNone, true
	switch {
	case t.stopping:
	case t.cancelling:
		t.settle(false)
	default:
		t.activate()
	}
}

func (t *transition) onActivated(e evActivated) {
	if !t.present(e.epoch, workActivate) {
		return
	}
	t.work = workNone
	switch {
	case t.stopping:
		return
	case t.cancelling && (len(t.evictors) > 0 || !t.wants()):
		t.settle(false)
		return
	}
	t.status, t.lastErr, t.asked = shared.SlotResident, nil, false
	t.since, t.used = e.now, e.now
	t.wanted, t.cancelling, t.dropHost = true, false, false
	for _, w := range t.waiters {
		if !w.lease {
			t.do(actDone{w.call})
			continue
		}
		t.leases++
		t.status = shared.SlotActive
		t.do(actGrant{call: w.call, epoch: t.epoch})
	}
	t.waiters = nil
}

func (t *transition) onPrepareFailed(e evPrepareFailed) {
	if !t.present(e.epoch, workPrefetch) && !t.present(e.epoch, workActivate) {
		return
	}
	t.work = workNone
	switch {
	case t.stopping:
	case e.err.Kind == shared.KindWorkerLost:
		t.recycle(e.err)
	case t.cancelling:
		t.settle(false)
	case permanent(e.err):
		t.blocked, t.lastErr = e.err, e.err
		t.refuseWaiters(e.err)
		t.settle(true)
	default:
		t.recycle(e.err)
	}
}

// settle makes sure that nothing is left of a preparation that was given up. The
// worker may have gone further than the supervisor heard, so it is told to free
// what it has, the host buffer too unless that is known to be whole and good.
func (t *transition) settle(bad bool) {
	t.cancelling = true
	t.work = workEvict
	t.do(actEvict{epoch: t.epoch, dropHost: bad || !t.host || t.dropHost})
}

func (t *transition) onEvicted(e evEvicted) {
	if !t.present(e.epoch, workEvict) {
		return
	}
	// Whoever wants the slot now comes after those that wait for the room.
	t.work, t.cancelling, t.room = workNone, false, false
	if e.dropHost {
		t.host = false
	}
	if t.dropHost && t.host {
		// Asked for while an eviction ran that keeps it.
		t.status = shared.SlotEvicting
		return
	}
	t.status, t.dropHost = shared.SlotEmpty, false
	t.evictorsDone()
}

func (t *transition) evictorsDone() {
	for _, call := range t.evictors {
		t.do(actDone{call})
	}
	t.evictors = nil
}

// permanent reports whether another try would fail in the same way until
// somebody changes something.
func permanent(err *shared.Error) bool {
	if err.Field == deviceField {
		return true
	}
	switch err.Kind {
	case shared.KindIdentity, shared.KindModelFile, shared.KindConfig, shared.KindInvalid,
		shared.KindUnsupported, shared.KindEngineMissing, shared.KindContextTooLong:
		return true
	}
	return false
}
