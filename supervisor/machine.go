package supervisor

import (
	"slices"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// step is the slot's whole policy: what an event makes of a state, and what
// the owner has to do about it. It reads no clock and does nothing itself.
func step(s slotState, ev event) (slotState, []action) {
	t := transition{slotState: s}
	t.handle(ev)
	t.advance()
	t.balance()
	return t.slotState, t.actions
}

// transition is one step in the making.
type transition struct {
	slotState
	actions []action
}

func (t *transition) do(a ...action) { t.actions = append(t.actions, a...) }

func (t *transition) handle(ev event) {
	switch e := ev.(type) {
	case evDeclared:
		t.onDeclared(e)
	case evRedeclare:
		// A prepared slot has proved its identity; only an empty one may change it.
		if t.status == shared.SlotEmpty {
			t.declared = declaredUnknown
		}
	case evAcquire:
		t.onAcquire(e)
	case evRelease:
		t.onRelease(e)
	case evPrepare:
		t.onPrepare(e)
	case evEvict:
		t.onEvict(e)
	case evRestart:
		t.onRestart(e)
	case evLeft:
		t.onLeft(e)
	case evLaunched:
		t.onLaunched(e)
	case evLaunchFailed:
		t.onLaunchFailed(e)
	case evExited:
		t.onExited(e)
	case evStopped:
		t.onStopped(e)
	case evUnreachable:
		// One that is being ended already, or is gone, needs no second attempt.
		if e.epoch == t.epoch && t.process == shared.ProcessUp && !t.stopping {
			t.recycle(nil)
		}
	case evRoom:
		t.onRoom()
	case evNoRoom:
		t.onNoRoom(e)
	case evReclaim:
		t.onReclaim(e)
	case evIdle:
		t.onIdle(e)
	case evBeat:
		t.onBeat(e)
	case evWatch:
		t.onWatch(e)
	case evCutOff:
		if e.epoch == t.epoch && t.process == shared.ProcessUp && !t.stopping {
			t.lastErr = e.err
			t.stopping, t.cause = true, e.err
			t.do(actStop{epoch: t.epoch, drain: true})
		}
	case evOutdated:
		t.onOutdated(e)
	case evPrefetched:
		t.onPrefetched(e)
	case evActivated:
		t.onActivated(e)
	case evPrepareFailed:
		t.onPrepareFailed(e)
	case evEvicted:
		t.onEvicted(e)
	case evEvictFailed:
		if t.present(e.epoch, workEvict) {
			// What the worker still holds is not known; its end frees all of it.
			t.work = workNone
			t.recycle(e.err)
		}
	case evEvictDeadline:
		// The timer is not disarmed, so it may fire when nothing is left to cancel.
		if t.status == shared.SlotEvicting && t.leases > 0 {
			t.do(actCancelLeases{epoch: t.epoch, err: refusal(shared.KindCancelled, "the slot is being evicted, and the time to finish is over")})
		}
	case evBackoffOver:
		// Late after a restart by hand.
		if t.process == shared.ProcessBackoff || t.process == shared.ProcessFailed && t.resumes {
			t.process, t.resumes = shared.ProcessStopped, false
		}
	case evClose:
		t.onClose()
	}
}

// advance starts whatever the state now calls for. Every handler may leave the
// next move to it, so a slot that somebody wants cannot come to rest half way.
func (t *transition) advance() {
	switch {
	case t.closing:
		if !t.finished && (t.process == shared.ProcessStopped || t.stuck) {
			t.finished = true
			t.do(actFinish{})
		}
	case t.stopping || t.work != workNone && t.status != shared.SlotPrefetching:
		// The end of the process or of the call moves things on.
	case t.status == shared.SlotEvicting && t.leases == 0:
		t.work = workEvict
		t.do(actEvict{epoch: t.epoch, dropHost: t.dropHost})
	case t.status == shared.SlotPrefetching && !t.wants() && !t.cancelling:
		t.cancelling = true
		t.do(actCancelPreparation{})
	case t.startable() && !t.lacksRoom() && t.claim == claimNone:
		switch t.process {
		case shared.ProcessStopped:
			t.launch()
		case shared.ProcessUp:
			t.status = shared.SlotPrefetching
			if t.host {
				t.activate()
			} else {
				t.work = workPrefetch
				t.do(actPrefetch{epoch: t.epoch})
			}
		}
	}
}

func (t *transition) onDeclared(e evDeclared) {
	if e.err != nil {
		t.declared, t.reason, t.lastErr = declaredBad, e.err, e.err
		t.refuseWaiters(e.err)
		return
	}
	if t.lastErr == t.reason || t.lastErr == t.blocked {
		t.lastErr = nil
	}
	t.declared, t.reason, t.blocked = declaredKnown, nil, nil
}

func (t *transition) onAcquire(e evAcquire) {
	switch {
	case t.ready():
		t.status = shared.SlotActive
		t.leases++
		t.do(actGrant{call: e.call, epoch: t.epoch, hit: true})
	case t.hopeless() != nil:
		t.do(actRefuse{e.call, t.hopeless()})
	case e.onMiss == shared.OnMissFail:
		t.do(actRefuse{e.call, refusal(shared.KindNotResident, "the slot is not resident, and the request does not wait for it")})
	case e.onMiss == shared.OnMissPending:
		t.wanted, t.asked = true, true
		t.do(actRefuse{e.call, refusal(shared.KindPending, "the slot is being prepared")})
	default:
		t.waiters = append(slices.Clip(t.waiters), waiter{call: e.call, lease: true})
	}
}

func (t *transition) onRelease(e evRelease) {
	switch {
	case e.epoch == t.epoch && t.leases > 0:
		t.leases--
		if t.leases == 0 && t.status == shared.SlotActive {
			t.status, t.used = shared.SlotResident, e.now
		}
	case t.orphans > 0:
		// The process of this lease ended before the lease came back.
		t.orphans--
	default:
		t.do(actFault{"a lease came back that was not out"})
	}
}

func (t *transition) onPrepare(e evPrepare) {
	// Asking again by hand is what clears an error that another try would repeat.
	t.blocked = nil
	switch {
	case t.ready():
		t.wanted = true
		t.do(actDone(e))
	case t.hopeless() != nil:
		t.do(actRefuse{e.call, t.hopeless()})
	default:
		t.waiters = append(slices.Clip(t.waiters), waiter{call: e.call})
	}
}

func (t *transition) onEvict(e evEvict) {
	if t.closing {
		t.do(actRefuse{e.call, shuttingDown()})
		return
	}
	// Who waited before the eviction wanted what it takes away; who comes after
	// it is served when it is over.
	t.wanted, t.asked = false, false
	t.refuseWaiters(refusal(shared.KindUnavailable, "the slot was evicted while the request waited for it"))
	switch {
	case t.status == shared.SlotEmpty && (!e.dropHost || !t.host):
		t.do(actDone{e.call})
		return
	case t.status == shared.SlotEmpty:
		t.status = shared.SlotEvicting
	case t.status.Ready():
		t.status = shared.SlotEvicting
		if t.leases > 0 {
			t.do(actStartEvictTimer{})
		}
	}
	// Prefetching is undone by advance, since nobody wants it now.
	t.dropHost = t.dropHost || e.dropHost
	t.evictors = append(slices.Clip(t.evictors), e.call)
}

func (t *transition) onRestart(e evRestart) {
	if t.closing {
		t.do(actRefuse{e.call, shuttingDown()})
		return
	}
	t.restarters = append(slices.Clip(t.restarters), e.call)
	t.window, t.crashes, t.resumes, t.blocked = time.Time{}, 0, false, nil
	switch t.process {
	case shared.ProcessUp:
		t.restart = true
		if !t.stopping || t.stuck {
			t.stopping, t.stuck, t.cause = true, false, nil
			t.do(actStop{epoch: t.epoch})
		}
	case shared.ProcessStarting:
		if !t.restart {
			t.restart = true
			t.do(actCancelLaunch{})
		}
	default:
		t.launch()
	}
}

func (t *transition) onLeft(e evLeft) {
	t.waiters = slices.DeleteFunc(slices.Clone(t.waiters), func(w waiter) bool { return w.call == e.call })
	t.evictors = slices.DeleteFunc(slices.Clone(t.evictors), func(c callID) bool { return c == e.call })
	t.restarters = slices.DeleteFunc(slices.Clone(t.restarters), func(c callID) bool { return c == e.call })
}

func (t *transition) onClose() {
	if t.closing {
		return
	}
	t.closing, t.wanted = true, false
	t.refuseWaiters(shuttingDown())
	for _, call := range slices.Concat(t.evictors, t.restarters) {
		t.do(actRefuse{call, shuttingDown()})
	}
	t.evictors, t.restarters = nil, nil
	switch t.process {
	case shared.ProcessStarting:
		t.do(actCancelLaunch{})
	case shared.ProcessUp:
		if t.work == workPrefetch || t.work == workActivate {
			t.do(actCancelPreparation{})
		}
		if !t.stopping || t.stuck {
			t.stopping, t.stuck = true, false
			t.do(actStop{epoch: t.epoch, drain: true})
		}
	default:
		t.process = shared.ProcessStopped
	}
}

// hopeless is why waiting would be in vain, or nil.
func (t *transition) hopeless() *shared.Error {
	switch {
	case t.closing:
		return shuttingDown()
	case t.declared == declaredBad:
		return t.reason
	case t.blocked != nil:
		return t.blocked
	case t.stuck:
		return t.lastErr
	case t.process == shared.ProcessFailed:
		e := refusal(shared.KindUnavailable, "the worker process keeps failing; restart the slot to try again")
		if t.resumes {
			e.Message = "the worker process keeps failing, and rests until it is tried again"
		}
		if t.lastErr != nil {
			e.Err, e.LogTail = t.lastErr, t.lastErr.LogTail
		}
		return e
	}
	return nil
}

func (t *transition) refuseWaiters(err *shared.Error) {
	for _, w := range t.waiters {
		t.do(actRefuse{w.call, err})
	}
	t.waiters = nil
}

func refusal(kind shared.Kind, message string) *shared.Error {
	return &shared.Error{Kind: kind, Message: message}
}

func shuttingDown() *shared.Error {
	return refusal(shared.KindShuttingDown, "the supervisor is ending")
}
