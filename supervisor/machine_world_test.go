package supervisor

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// world is what surrounds one slot: it does what the actions say, and knows
// what may happen next. It checks, after each step, what must always hold.
type world struct {
	t     *rapid.T
	state slotState
	now   time.Time

	launching  epoch // 0: none
	alive      epoch
	stopping   bool
	work       work
	workDrop   bool
	backoff    bool
	claim      bool // the ledger owes an answer
	urgent     bool // what the claim was
	evictTimer bool
	leases     []epoch // out, by the process they were granted on
	open       map[callID]string
	nextCall   callID
	finished   bool
}

func newWorld(t *rapid.T, preload bool) *world {
	return &world{
		t: t, now: time.Unix(0, 0), open: map[callID]string{},
		state: newSlotState(testRules(3), preload),
	}
}

func (w *world) apply(ev event) {
	before := w.state
	var actions []action
	w.state, actions = step(before, ev)
	for _, a := range actions {
		w.perform(a, before)
	}
	w.check(ev)
}

func (w *world) perform(a action, before slotState) {
	switch a := a.(type) {
	case actLaunch:
		w.require(w.alive == 0 && w.launching == 0, "two processes for one slot")
		w.launching = a.epoch
		w.backoff = false
	case actCancelLaunch:
		w.require(w.launching != 0, "cancelled a launch that is not there")
	case actStop:
		w.require(w.alive == a.epoch, "stopped a process that is not there")
		w.require(!a.kill || !a.drain, "a process is to drain and to be killed")
		w.stopping = true
	case actClaim:
		w.require(w.state.rules.budgeted && !w.claim && !w.state.room, "a claim that may not be")
		w.claim, w.urgent = true, a.urgent
	case actUnclaim:
		w.require(w.claim, "gave up a claim that is not there, or was answered")
	case actDecline:
	case actPrefetch:
		w.require(w.alive == a.epoch && w.work == workNone && !w.state.host, "prefetch when it may not be")
		w.require(w.state.declared == declaredKnown, "prefetch without an identity")
		w.work = workPrefetch
	case actActivate:
		w.require(w.alive == a.epoch && w.work == workNone && w.state.host, "activation without a host buffer")
		w.work = workActivate
	case actCancelPreparation:
		w.require(w.work == workPrefetch || w.work == workActivate, "cancelled no preparation")
	case actEvict:
		w.require(w.alive == a.epoch && w.work == workNone, "two calls in the worker")
		w.require(len(w.onPresent()) == 0, "evicted a busy slot")
		w.work, w.workDrop = workEvict, a.dropHost
	case actGrant:
		w.require(w.state.status == shared.SlotActive, "a lease on a slot that is "+string(w.state.status))
		w.require(w.alive == a.epoch && !w.stopping && !w.state.closing, "a lease on a process that is going")
		w.close(a.call, "acquire")
		w.leases = append(w.leases, a.epoch)
	case actDone:
		w.close(a.call, "prepare", "evict", "restart")
	case actRefuse:
		w.require(a.err != nil, "a refusal without a reason")
		w.close(a.call, "acquire", "prepare", "evict", "restart")
	case actStartBackoff:
		w.backoff = true
	case actAwaitInterval:
		w.require(a.rest > 0 && a.rest <= w.state.rules.restart.Interval, fmt.Sprintf("a rest of %s", a.rest))
		w.backoff = true
	case actStartEvictTimer:
		w.evictTimer = true
	case actCancelLeases:
		w.require(a.err != nil, "leases cancelled without a reason")
	case actFault:
		w.t.Fatalf("internal error: %s in %+v", a.text, before)
	case actFinish:
		w.require(!w.finished, "finished twice")
		w.require(w.alive == 0 || w.state.stuck, "finished beside a living process")
		w.finished = true
	}
}

func (w *world) require(ok bool, text string) {
	if !ok {
		w.t.Fatalf("%s: %+v", text, w.state)
	}
}

func (w *world) close(id callID, kinds ...string) {
	kind, open := w.open[id]
	w.require(open, fmt.Sprintf("call %d was answered twice, or after it had left", id))
	w.require(slices.Contains(kinds, kind), "an answer to another question")
	delete(w.open, id)
}

func (w *world) onPresent() []epoch {
	return slices.DeleteFunc(slices.Clone(w.leases), func(e epoch) bool { return e != w.alive })
}

func (w *world) check(ev event) {
	s := w.state
	w.require(s.leases >= 0 && s.orphans >= 0, "negative leases")
	w.require(s.inFlight() == len(w.leases), fmt.Sprintf("%d leases are out, the slot counts %d", len(w.leases), s.inFlight()))
	w.require((s.status == shared.SlotActive) == (s.leases > 0 && s.status != shared.SlotEvicting), "active without leases, or leases without active")
	w.require(s.status == shared.SlotEmpty || s.process == shared.ProcessUp, "a status without a process")
	w.require(!s.host || s.process == shared.ProcessUp, "a host buffer without a process")
	w.require(w.claim == (s.claim != claimNone), "the ledger owes an answer, and the slot does not know, or the other way round")
	if s.rules.budgeted {
		loaded := s.status == shared.SlotPrefetching || s.status.Ready() || s.status == shared.SlotEvicting && s.leases > 0
		w.require(s.room || !loaded, "memory that was not reserved")
		w.require(!s.room || s.wants() || s.status != shared.SlotEmpty || s.work != workNone, "room that nobody wants")
	}
	w.require(!s.closing || !s.startable(), "a closing slot starts something")
	w.require((s.process == shared.ProcessUp) == (w.alive != 0), "the process state is not the process's")
	waiting := len(s.waiters) + len(s.evictors) + len(s.restarters)
	w.require(waiting == len(w.open), fmt.Sprintf("%d calls are open, the slot knows %d", len(w.open), waiting))
	if s.closing {
		w.require(waiting == 0, "somebody waits for a slot that is closing")
		w.require(w.finished || w.launching != 0 || w.stopping || s.stuck, "a closing slot rests")
		return
	}
	w.require(!s.resumes || s.process == shared.ProcessFailed && w.backoff, "a failed process resumes, and nobody waits for it")
	if s.wants() && s.declared == declaredKnown && s.blocked == nil && (s.process != shared.ProcessFailed || s.resumes) && !s.stuck {
		moving := w.launching != 0 || w.stopping || w.work != workNone || w.backoff || w.claim
		there := s.status.Ready() || s.status == shared.SlotEvicting && s.leases > 0
		w.require(moving || there, fmt.Sprintf("a wanted slot rests after %T", ev))
		w.require(len(s.waiters) == 0 || moving || !s.status.Ready(), "somebody waits for a slot that is there")
	}
}
