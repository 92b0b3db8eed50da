package supervisor

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// possible is what may happen next. Everything that the slot started may end
// well or badly; callers do what they like.
func (w *world) possible() map[string]func() {
	m := map[string]func(){
		"acquire": func() {
			mode := rapid.SampledFrom([]shared.OnMiss{"", shared.OnMissWait, shared.OnMissPending, shared.OnMissFail}).Draw(w.t, "on_miss")
			w.apply(evAcquire{call: w.call("acquire"), onMiss: mode})
		},
		"prepare": func() { w.apply(evPrepare{call: w.call("prepare")}) },
		"evict": func() {
			w.apply(evEvict{call: w.call("evict"), dropHost: rapid.Bool().Draw(w.t, "drop host")})
		},
		"restart":    func() { w.apply(evRestart{call: w.call("restart")}) },
		"declared":   func() { w.apply(evDeclared{}) },
		"bad":        func() { w.apply(evDeclared{err: refusal(shared.KindIdentity, "wrong")}) },
		"redeclare":  func() { w.apply(evRedeclare{}) },
		"late":       func() { w.late() },
		"time":       func() { w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(w.t, "s")) * time.Second) },
		"unreachble": func() { w.apply(evUnreachable{epoch: w.state.epoch}) },
		"cut off":    func() { w.apply(evCutOff{epoch: w.state.epoch, err: refusal(shared.KindUnavailable, "no socket")}) },
		"watch":      func() { w.apply(evWatch{now: w.now}) },
		"idle":       func() { w.apply(evIdle{now: w.now}) },
		"reclaim": func() {
			before := w.state
			w.apply(evReclaim{dropHost: rapid.Bool().Draw(w.t, "drop host")})
			taken := before.status != shared.SlotEvicting && w.state.status == shared.SlotEvicting
			w.require(!taken || !before.rules.pin && before.leases == 0 && len(before.waiters) == 0, "a slot was taken that is pinned or in use")
		},
		"beat": func() {
			progress := rapid.Uint64Range(0, 2).Draw(w.t, "progress")
			w.apply(evBeat{epoch: w.state.epoch, now: w.now, progress: progress, busy: rapid.Bool().Draw(w.t, "busy")})
		},
	}
	if len(w.open) > 0 {
		m["left"] = func() {
			id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.open))).Draw(w.t, "call")
			delete(w.open, id)
			w.apply(evLeft{call: id})
		}
	}
	if len(w.leases) > 0 {
		m["release"] = func() { w.release(rapid.IntRange(0, len(w.leases)-1).Draw(w.t, "lease")) }
	}
	if w.evictTimer {
		m["evict deadline"] = func() {
			w.evictTimer = false
			w.apply(evEvictDeadline{})
		}
	}
	maps.Copy(m, w.progress())
	maps.Copy(m, w.failures())
	return m
}

// progress is what brings started things to a good end.
func (w *world) progress() map[string]func() {
	m := map[string]func(){}
	if w.launching != 0 {
		m["launched"] = func() {
			w.alive, w.launching = w.launching, 0
			w.apply(evLaunched{epoch: w.alive, now: w.now})
		}
	}
	if w.backoff {
		m["backoff over"] = func() {
			w.backoff = false
			w.apply(evBackoffOver{})
		}
	}
	if w.claim {
		m["room"] = func() {
			w.claim = false
			w.apply(evRoom{})
		}
	}
	if w.stopping {
		m["stopped"] = w.exit
	}
	done := w.work
	finish := func(ev event) func() {
		return func() {
			w.work = workNone
			w.apply(ev)
		}
	}
	switch done {
	case workPrefetch:
		m["prefetched"] = finish(evPrefetched{epoch: w.alive})
		m["outdated"] = finish(evOutdated{epoch: w.alive})
	case workActivate:
		m["activated"] = finish(evActivated{epoch: w.alive, now: w.now})
	case workEvict:
		m["evicted"] = finish(evEvicted{epoch: w.alive, dropHost: w.workDrop})
	}
	return m
}

// failures is what may go wrong.
func (w *world) failures() map[string]func() {
	m := map[string]func(){}
	kinds := []shared.Kind{shared.KindIdentity, shared.KindEngine, shared.KindWorkerLost, shared.KindCancelled}
	err := func() *shared.Error {
		return refusal(rapid.SampledFrom(kinds).Draw(w.t, "kind"), "failed")
	}
	if w.claim {
		m["no room"] = func() {
			w.claim = false
			w.apply(evNoRoom{err: refusal(shared.KindUnavailable, "no room"), urgent: w.urgent})
		}
	}
	if w.launching != 0 {
		m["launch failed"] = func() {
			ep := w.launching
			w.launching = 0
			w.apply(evLaunchFailed{epoch: ep, now: w.now, err: err()})
		}
	}
	if w.alive != 0 {
		m["exited"] = w.exit
	}
	if w.stopping {
		m["stop failed"] = func() {
			w.stopping = false
			w.apply(evStopped{epoch: w.alive})
		}
	}
	switch w.work {
	case workPrefetch, workActivate:
		m["prepare failed"] = func() {
			w.work = workNone
			w.apply(evPrepareFailed{epoch: w.alive, err: err()})
		}
	case workEvict:
		m["evict failed"] = func() {
			w.work = workNone
			w.apply(evEvictFailed{epoch: w.alive, err: err()})
		}
	}
	return m
}

// late is a report of a process that is gone, or a timer's last tick.
func (w *world) late() {
	old := w.state.epoch - 1
	if w.alive == 0 {
		old = w.state.epoch
	}
	w.apply(rapid.SampledFrom([]event{
		evPrefetched{epoch: old}, evOutdated{epoch: old}, evActivated{epoch: old, now: w.now}, evEvicted{epoch: old}, evStopped{epoch: old},
		evPrepareFailed{epoch: old, err: refusal(shared.KindEngine, "late")}, evEvictDeadline{}, evUnreachable{epoch: old},
	}).Draw(w.t, "late"))
}

func (w *world) call(kind string) callID {
	w.nextCall++
	w.open[w.nextCall] = kind
	return w.nextCall
}

func (w *world) release(i int) {
	ep := w.leases[i]
	w.leases = slices.Delete(w.leases, i, i+1)
	w.apply(evRelease{epoch: ep, now: w.now})
}

func (w *world) exit() {
	ep := w.alive
	w.alive, w.stopping, w.work = 0, false, workNone
	w.apply(evExited{epoch: ep, now: w.now, err: refusal(shared.KindWorkerLost, "ended")})
}

func (w *world) oneOf(m map[string]func(), label string) {
	m[rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(w.t, label)]()
}

// settle lets everything that was started come to a good end, and gives all
// leases back: after it, nobody may be left without an answer.
func (w *world) settle() {
	for range 200 {
		for len(w.leases) > 0 {
			w.release(0)
		}
		m := w.progress()
		if len(m) == 0 {
			return
		}
		w.oneOf(m, "settle")
	}
	w.t.Fatalf("the slot does not come to rest: %+v", w.state)
}

func TestMachineHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Bool().Draw(t, "preload"))
		w.state.rules.budgeted = rapid.Bool().Draw(t, "budgeted")
		w.state.rules.pin = rapid.Bool().Draw(t, "pin")
		w.state.rules.idleTTL = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "idle_ttl")
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			// Otherwise few runs would come as far as a resident slot.
			if m := w.progress(); len(m) > 0 && rapid.Bool().Draw(t, "gets on") {
				w.oneOf(m, "progress")
				continue
			}
			w.oneOf(w.possible(), "event")
		}
		w.settle()
		if w.state.declared != declaredUnknown && !w.state.stuck && len(w.open) > 0 {
			t.Fatalf("calls %v got no answer: %+v", w.open, w.state)
		}
		s := w.state
		if s.wants() && s.declared == declaredKnown && s.blocked == nil && (s.process != shared.ProcessFailed || s.resumes) && !s.stuck && !s.status.Ready() {
			t.Fatalf("a wanted slot is not resident in the end: %+v", s)
		}

		w.apply(evClose{})
		w.apply(evAcquire{call: w.call("acquire")})
		w.settle()
		if !w.finished && !w.state.stuck {
			t.Fatalf("the slot does not close: %+v", w.state)
		}
		if len(w.open) > 0 || w.state.inFlight() != 0 {
			t.Fatalf("after the end %d calls and %d leases are open", len(w.open), w.state.inFlight())
		}
	})
}

// The old state must stay what it was: the owner compares the two.
func TestStepLeavesTheOldStateAlone(t *testing.T) {
	s := newSlotState(testRules(3), false)
	s, _ = step(s, evDeclared{})
	for id := range callID(3) {
		s, _ = step(s, evAcquire{call: id + 1})
	}
	before := slices.Clone(s.waiters)
	next, _ := step(s, evLeft{call: 1})
	other, _ := step(s, evAcquire{call: 9})
	third, _ := step(s, evAcquire{call: 10})
	if !slices.Equal(s.waiters, before) {
		t.Errorf("the old state's waiters changed from %v to %v", before, s.waiters)
	}
	if len(next.waiters) != 2 || other.waiters[3].call != 9 || third.waiters[3].call != 10 {
		t.Errorf("the new states share memory: %v, %v, %v", next.waiters, other.waiters, third.waiters)
	}
}
