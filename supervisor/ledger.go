package supervisor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/firstframe/firstframe/shared"
)

// amount is memory of a slot: its host buffer, and what lies on its device.
type amount struct{ host, device int64 }

// holding is what a slot says of itself to the ledger.
type holding struct {
	held amount
	// grants is how many grants the slot has heard of: one that it has not is on
	// its way, and held does not say it yet.
	grants int
	idle   bool // it has device buffers, and nobody uses or prepares them
	keeps  bool // it has a host buffer and nothing else, and nobody wants more
	since  time.Time
	used   time.Time // the end of its last use
}

// account is one slot in the ledger.
type account struct {
	slotID string
	device string
	pinned bool
	holding
	grants  int    // given
	leaving amount // asked back and not freed yet
}

// claim is a slot that waits for room.
type claim struct {
	slotID string
	need   amount // all that the slot will hold
	urgent bool   // others may be evicted for it
}

// verdict is what the ledger has decided for a slot.
type verdict struct {
	slotID   string
	granted  bool
	refused  *shared.Error // of a claim
	urgent   bool          // the refused claim was
	reclaim  bool          // it has to give up its device buffers, or its host buffer
	dropHost bool
}

// ledger is who holds how much of which budget. Bytes are in it before they are
// allocated, and until they are really free.
type ledger struct {
	limits       map[string]int64 // by device and HostDevice; without an entry there is none
	minResidency time.Duration
	accounts     map[string]*account
	queue        []claim
}

func newLedger(limits map[string]int64, minResidency time.Duration) *ledger {
	limits = maps.Clone(limits)
	if limits == nil {
		limits = map[string]int64{}
	}
	return &ledger{limits: limits, minResidency: minResidency, accounts: map[string]*account{}}
}

// bound limits a device to the memory that it has, whatever was declared.
func (l *ledger) bound(device string, bytes int64) {
	if limit, limited := l.limits[device]; !limited || bytes < limit {
		l.limits[device] = bytes
	}
}

// say takes a slot's word for what it holds now.
func (l *ledger) say(slotID string, h holding) {
	a := l.accounts[slotID]
	if a == nil {
		return
	}
	if h.grants < a.grants {
		h.held = a.held
	}
	a.holding = h
	if a.held.device == 0 {
		a.leaving.device = 0
	}
	if a.held.host == 0 {
		a.leaving.host = 0
	}
}

// decline notes that a slot does not give up what was asked back.
func (l *ledger) decline(slotID string) {
	if a := l.accounts[slotID]; a != nil {
		a.leaving, a.idle, a.keeps = amount{}, false, false
	}
}

func (l *ledger) drop(slotID string) bool {
	before := len(l.queue)
	l.queue = slices.DeleteFunc(l.queue, func(c claim) bool { return c.slotID == slotID })
	return len(l.queue) < before
}

// remove closes a slot's account.
func (l *ledger) remove(slotID string) {
	l.drop(slotID)
	delete(l.accounts, slotID)
}

// part is the share of an account in a budget.
func (a *account) part(budget string, of amount) int64 {
	switch budget {
	case shared.HostDevice:
		return of.host
	case a.device:
		return of.device
	}
	return 0
}

// held is how much of a budget is taken.
func (l *ledger) held(budget string) (sum int64) {
	for _, a := range l.accounts {
		sum += a.part(budget, a.held)
	}
	return sum
}

// settle decides about the claims in the order in which they came. One that has
// to wait holds up only those that want the same budget. wake is when a slot
// becomes old enough to be evicted; zero when none does.
func (l *ledger) settle(now time.Time) (out []verdict, wake time.Time) {
	taken := map[string]bool{}
	var waiting []claim
	for _, c := range l.queue {
		a := l.accounts[c.slotID]
		missing := amount{c.need.host - a.held.host, c.need.device - a.held.device}
		short := map[string]int64{}
		held := false
		for _, budget := range []string{shared.HostDevice, a.device} {
			limit, limited := l.limits[budget]
			if m := a.part(budget, missing); limited && m > 0 {
				held = held || taken[budget]
				if s := m - (limit - l.held(budget)); s > 0 {
					short[budget] = s
				}
			}
		}
		switch {
		case len(short) == 0 && !held:
			a.held = amount{max(a.held.host, c.need.host), max(a.held.device, c.need.device)}
			a.grants++
			a.idle, a.keeps = false, false
			out = append(out, verdict{slotID: c.slotID, granted: true})
			continue
		case !c.urgent || l.hopeless(a, missing):
			out = append(out, verdict{slotID: c.slotID, refused: l.refusal(a, c, short), urgent: c.urgent})
			continue
		}
		for budget := range short {
			taken[budget] = true
		}
		waiting = append(waiting, c)
		reclaims, at := l.reclaim(a, short, now)
		out = append(out, reclaims...)
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	l.queue = waiting
	return out, wake
}

// hopeless reports whether there would be no room even without every slot that
// may be evicted.
func (l *ledger) hopeless(a *account, missing amount) bool {
	for _, budget := range []string{shared.HostDevice, a.device} {
		limit, limited := l.limits[budget]
		if !limited || a.part(budget, missing) <= 0 {
			continue
		}
		room := limit - a.part(budget, a.held)
		for _, other := range l.accounts {
			if other != a && other.pinned {
				room -= other.part(budget, other.held)
			}
		}
		if a.part(budget, missing) > room {
			return true
		}
	}
	return false
}

// reclaim asks slots for what is short, least recently used first: host buffers
// that nothing else hangs on, device buffers, and then both of a slot.
func (l *ledger) reclaim(a *account, short map[string]int64, now time.Time) (out []verdict, wake time.Time) {
	others := make([]*account, 0, len(l.accounts))
	for _, o := range l.accounts {
		if o == a || o.pinned {
			continue
		}
		others = append(others, o)
		short[shared.HostDevice] -= o.leaving.host
		short[a.device] -= o.part(a.device, o.leaving)
	}
	slices.SortFunc(others, func(x, y *account) int {
		return cmp.Or(x.used.Compare(y.used), cmp.Compare(x.slotID, y.slotID))
	})
	for _, o := range others {
		if short[shared.HostDevice] > 0 && o.keeps && o.leaving == (amount{}) {
			o.leaving.host = o.held.host
			short[shared.HostDevice] -= o.held.host
			out = append(out, verdict{slotID: o.slotID, reclaim: true, dropHost: true})
		}
	}
	for _, o := range others {
		needsHost, needsDevice := short[shared.HostDevice] > 0, short[a.device] > 0 && o.device == a.device
		if !o.idle || o.leaving != (amount{}) || !needsHost && !needsDevice {
			continue
		}
		if old := o.since.Add(l.minResidency); now.Before(old) {
			if wake.IsZero() || old.Before(wake) {
				wake = old
			}
			continue
		}
		o.leaving.device = o.held.device
		short[a.device] -= o.part(a.device, o.leaving)
		if needsHost {
			o.leaving.host = o.held.host
			short[shared.HostDevice] -= o.held.host
		}
		out = append(out, verdict{slotID: o.slotID, reclaim: true, dropHost: needsHost})
	}
	return out, wake
}

// refusal names what is short and who holds it.
func (l *ledger) refusal(a *account, c claim, short map[string]int64) *shared.Error {
	e := refusal(shared.KindUnavailable, "")
	var said []string
	for _, budget := range []string{shared.HostDevice, a.device} {
		limit, limited := l.limits[budget]
		need := a.part(budget, c.need)
		if s := short[budget]; !limited || s <= 0 {
			continue
		}
		name := budget + " memory"
		if budget != shared.HostDevice {
			name = "memory of device " + budget
		}
		text := fmt.Sprintf("%s is short by %s: the slot needs %s, and the budget is %s", name, bytesText(short[budget]), bytesText(need), bytesText(limit))
		if holders := l.holders(budget, a); holders != "" {
			text += ", of which " + holders
		}
		e.Field = cmp.Or(e.Field, "budget."+budget)
		said = append(said, text)
	}
	if len(said) == 0 {
		said = []string{"another slot waits for the room that there is"}
	}
	e.Message = strings.Join(said, "; ")
	return e
}

func (l *ledger) holders(budget string, except *account) string {
	var parts []string
	for _, a := range l.accounts {
		if n := a.part(budget, a.held); n > 0 && a != except {
			text := a.slotID + " holds " + bytesText(n)
			if a.pinned {
				text += " (pinned)"
			}
			parts = append(parts, text)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
