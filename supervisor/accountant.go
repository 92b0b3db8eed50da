package supervisor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// accountant is the goroutine that the ledger belongs to. Slots send it what
// they hold and what they need; it answers with events. Sending never waits, so
// that a slot's owner and the accountant cannot wait for each other.
type accountant struct {
	ledger *ledger
	slots  map[string]*slot

	mu     sync.Mutex
	inbox  []func(*ledger, time.Time) []verdict
	signal chan struct{}
	use    []shared.BudgetUse // as of the last settlement; guarded by mu
}

func newAccountant(limits map[string]int64, minResidency time.Duration) *accountant {
	return &accountant{
		ledger: newLedger(limits, minResidency),
		slots:  map[string]*slot{},
		signal: make(chan struct{}, 1),
	}
}

func (a *accountant) send(f func(*ledger, time.Time) []verdict) {
	a.mu.Lock()
	a.inbox = append(a.inbox, f)
	a.mu.Unlock()
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// open begins the account of a slot, once.
func (a *accountant) open(s *slot) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		spec := s.spec
		if a.slots[spec.SlotID] == s {
			return nil
		}
		a.slots[spec.SlotID] = s
		l.accounts[spec.SlotID] = &account{slotID: spec.SlotID, device: cmp.Or(spec.Device, "cpu"), pinned: spec.Pin}
		return nil
	})
}

// bound limits a device to the memory that it has.
func (a *accountant) bound(device string, bytes int64) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		l.bound(device, bytes)
		return nil
	})
}

// close ends the account of a slot. One that never had an account leaves that of
// the slot whose place it was to take.
func (a *accountant) close(s *slot) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		if a.slots[s.spec.SlotID] != s {
			return nil
		}
		l.remove(s.spec.SlotID)
		delete(a.slots, s.spec.SlotID)
		return nil
	})
}

func (a *accountant) say(slotID string, h holding) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		l.say(slotID, h)
		return nil
	})
}

func (a *accountant) decline(slotID string) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		l.decline(slotID)
		return nil
	})
}

func (a *accountant) claim(c claim) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		l.queue = append(l.queue, c)
		return nil
	})
}

// unclaim gives a claim up. Exactly one answer comes for each claim: when it was
// decided before, that is the one.
func (a *accountant) unclaim(slotID string) {
	a.send(func(l *ledger, _ time.Time) []verdict {
		if !l.drop(slotID) {
			return nil
		}
		return []verdict{{slotID: slotID, refused: refusal(shared.KindCancelled, "nobody wants the slot any more"), urgent: true}}
	})
}

// run takes what was sent and settles, until ctx ends.
func (a *accountant) run(ctx context.Context) {
	var wake alarm
	defer wake.stop()
	for {
		select {
		case <-a.signal:
		case <-wake.fired():
			wake.at = time.Time{}
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		inbox := a.inbox
		a.inbox = nil
		a.mu.Unlock()
		var out []verdict
		for _, f := range inbox {
			out = append(out, f(a.ledger, time.Now())...)
		}
		decided, at := a.ledger.settle(time.Now())
		wake.setAt(at)
		a.publish()
		for _, v := range append(out, decided...) {
			a.tell(v)
		}
	}
}

func (a *accountant) tell(v verdict) {
	s := a.slots[v.slotID]
	switch {
	case s == nil: // closed meanwhile
	case v.granted:
		s.post(message{ev: evRoom{}, note: func(o *owner) { o.grants++ }})
	case v.refused != nil:
		s.post(message{ev: evNoRoom{err: v.refused, urgent: v.urgent}})
	case v.reclaim:
		s.post(message{ev: evReclaim{dropHost: v.dropHost}})
	}
}

func (a *accountant) publish() {
	var use []shared.BudgetUse
	for budget, limit := range a.ledger.limits {
		use = append(use, shared.BudgetUse{Device: budget, Limit: limit, Held: a.ledger.held(budget)})
	}
	slices.SortFunc(use, func(x, y shared.BudgetUse) int { return cmp.Compare(x.Device, y.Device) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.use = use
}

// budgets is how much of each budget is held.
func (a *accountant) budgets() []shared.BudgetUse {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.use
}
