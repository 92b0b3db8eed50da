package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// bank is slots around a ledger. They keep to what the ledger decides, each in
// its own time, and now and then they refuse or vanish.
type bank struct {
	t      *rapid.T
	l      *ledger
	now    time.Time
	wants  map[string]claim  // open
	busy   map[string]bool   // their buffers are in use
	asked  map[string]amount // told to give up, and did not yet
	pinned map[string]bool
}

func (b *bank) settle() {
	before := map[string]account{}
	for id, a := range b.l.accounts {
		before[id] = *a
	}
	out, _ := b.l.settle(b.now)
	for _, v := range out {
		a := b.l.accounts[v.slotID]
		switch {
		case v.granted:
			b.need(b.wants[v.slotID].slotID != "", "granted what nobody claimed")
			b.need(a.held == b.wants[v.slotID].need, "held %+v after a grant of %+v", a.held, b.wants[v.slotID])
			delete(b.wants, v.slotID)
			// The slot hears of it at once, and is resident.
			b.busy[v.slotID] = true
			b.l.say(v.slotID, holding{held: a.held, grants: a.grants, since: b.now, used: b.now})
		case v.refused != nil:
			b.need(b.wants[v.slotID].slotID != "", "refused what nobody claimed")
			b.need(strings.Contains(v.refused.Message, "short") || strings.Contains(v.refused.Message, "waits"), "a refusal says %q", v.refused.Message)
			delete(b.wants, v.slotID)
			b.rest(v.slotID)
		case v.reclaim:
			b.need(!b.pinned[v.slotID], "a pinned slot was asked")
			b.need(!b.busy[v.slotID], "a busy slot was asked")
			b.need(b.asked[v.slotID] == (amount{}), "a slot was asked twice")
			if before[v.slotID].held.device > 0 {
				b.need(!b.now.Before(before[v.slotID].since.Add(b.l.minResidency)), "a slot was asked that had just been loaded")
			}
			b.asked[v.slotID] = a.leaving
		}
	}
	for budget, limit := range b.l.limits {
		b.need(b.l.held(budget) <= limit, "%s holds %d of %d", budget, b.l.held(budget), limit)
	}
}

// rest is a slot that wants no more than the host buffer that it may have.
func (b *bank) rest(id string) {
	a := b.l.accounts[id]
	h := a.holding
	h.keeps, h.grants = h.held.host > 0, a.grants
	b.l.say(id, h)
}

func (b *bank) need(ok bool, format string, args ...any) {
	if !ok {
		b.t.Fatalf(format, args...)
	}
}

// free ends what a slot was asked for.
func (b *bank) free(id string) {
	a := b.l.accounts[id]
	h := a.holding
	gone := b.asked[id]
	delete(b.asked, id)
	h.held.device = 0
	if gone.host > 0 {
		h.held.host = 0
	}
	h.idle, h.keeps, h.grants = false, h.held.host > 0, a.grants
	b.l.say(id, h)
	b.settle()
}

func (b *bank) idle(id string, used time.Time) {
	a := b.l.accounts[id]
	h := a.holding
	b.busy[id] = false
	h.idle, h.keeps, h.used, h.grants = true, false, used, a.grants
	b.l.say(id, h)
	b.settle()
}

func TestLedgerHoldsItsBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bank{
			t: t, now: time.Unix(1000, 0),
			l:      newLedger(map[string]int64{shared.HostDevice: 100, "cpu": 100}, 10*time.Second),
			wants:  map[string]claim{},
			busy:   map[string]bool{},
			asked:  map[string]amount{},
			pinned: map[string]bool{},
		}
		b.l.bound("cuda:0", 90) // a device that nobody has declared a budget for
		var ids []string
		needs := map[string]amount{}
		for i := range 5 {
			id := fmt.Sprint("s", i)
			ids = append(ids, id)
			b.pinned[id] = i == 0 && rapid.Bool().Draw(t, "pin")
			needs[id] = amount{host: rapid.Int64Range(0, 70).Draw(t, "host"), device: rapid.Int64Range(1, 70).Draw(t, "device")}
			b.l.accounts[id] = &account{slotID: id, device: rapid.SampledFrom([]string{"cpu", "cpu", "cuda:0"}).Draw(t, "device of"), pinned: b.pinned[id]}
		}
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			id := rapid.SampledFrom(ids).Draw(t, "slot")
			a := b.l.accounts[id]
			open := b.wants[id].slotID != ""
			switch rapid.SampledFrom([]string{"claim", "claim", "idle", "free", "decline", "unclaim", "time", "crash"}).Draw(t, "event") {
			case "claim":
				if !open && a.held.device == 0 && b.asked[id] == (amount{}) {
					h := a.holding
					h.keeps = false
					b.l.say(id, h)
					c := claim{slotID: id, need: needs[id], urgent: rapid.Bool().Draw(t, "urgent")}
					b.wants[id] = c
					b.l.queue = append(b.l.queue, c)
					b.settle()
				}
			case "idle":
				if a.held.device > 0 && b.asked[id] == (amount{}) {
					b.idle(id, b.now)
				}
			case "free":
				if b.asked[id] != (amount{}) {
					b.free(id)
				}
			case "decline":
				if b.asked[id] != (amount{}) && a.held.device > 0 {
					delete(b.asked, id)
					b.busy[id] = true
					b.l.decline(id)
					b.settle()
				}
			case "unclaim":
				if open {
					b.need(b.l.drop(id), "an open claim is not in the queue")
					delete(b.wants, id)
					b.rest(id)
					b.settle()
				}
			case "time":
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "s")) * time.Second)
				b.settle()
			case "crash":
				delete(b.asked, id)
				b.busy[id] = false
				b.l.say(id, holding{grants: a.grants})
				b.settle()
			}
		}
		// When everybody becomes idle and gives up what it is asked for, every claim is
		// decided.
		for range 200 {
			if len(b.wants) == 0 {
				break
			}
			b.now = b.now.Add(11 * time.Second)
			for _, id := range ids {
				if b.l.accounts[id].held.device > 0 && b.asked[id] == (amount{}) {
					b.idle(id, b.now)
				}
			}
			b.settle()
			for _, id := range slices.Sorted(maps.Keys(b.asked)) {
				b.free(id)
			}
		}
		if len(b.wants) > 0 {
			t.Fatalf("claims %v are never decided: %+v", b.wants, b.l.queue)
		}
	})
}

func TestLedgerTakesTheLeastRecentlyUsed(t *testing.T) {
	l := newLedger(map[string]int64{shared.HostDevice: 300, "cpu": 100}, 10*time.Second)
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	put := func(id string, h holding) {
		l.accounts[id] = &account{slotID: id, device: "cpu"}
		l.say(id, h)
	}
	put("old-busy", holding{held: amount{30, 30}, since: at(0), used: at(1)})
	put("old", holding{held: amount{30, 30}, idle: true, since: at(0), used: at(2)})
	put("new", holding{held: amount{30, 30}, idle: true, since: at(0), used: at(3)})
	put("x", holding{})
	l.queue = []claim{{slotID: "x", need: amount{30, 40}, urgent: true}}
	out, _ := l.settle(at(100))
	if len(out) != 1 || out[0] != (verdict{slotID: "old", reclaim: true}) {
		t.Fatalf("decided %+v", out)
	}
	if out, _ := l.settle(at(101)); len(out) != 0 {
		t.Fatalf("asked again: %+v", out)
	}
	l.say("old", holding{held: amount{30, 0}, keeps: true})
	if out, _ := l.settle(at(102)); len(out) != 1 || !out[0].granted {
		t.Fatalf("decided %+v", out)
	}
	// Host memory comes first from whoever needs nothing but that.
	put("y", holding{})
	l.queue = []claim{{slotID: "y", need: amount{200, 0}, urgent: true}}
	if out, _ := l.settle(at(103)); len(out) != 1 || out[0] != (verdict{slotID: "old", reclaim: true, dropHost: true}) {
		t.Fatalf("decided %+v", out)
	}
}

func TestLedgerRefusalNamesWhoHoldsIt(t *testing.T) {
	l := newLedger(map[string]int64{shared.HostDevice: 100 << 20}, 0)
	l.accounts["a"] = &account{slotID: "a", device: "cpu", pinned: true, holding: holding{held: amount{host: 70 << 20}}}
	l.accounts["b"] = &account{slotID: "b", device: "cpu"}
	l.queue = []claim{{slotID: "b", need: amount{50 << 20, 1 << 40}, urgent: true}}
	out, _ := l.settle(time.Unix(0, 0))
	const want = "host memory is short by 20 MiB: the slot needs 50 MiB, and the budget is 100 MiB, of which a holds 70 MiB (pinned)"
	if len(out) != 1 || out[0].refused == nil || out[0].refused.Message != want || out[0].refused.Field != "budget.host" {
		t.Fatalf("decided %+v", out[0].refused)
	}
}

func TestLedgerLetsOthersPass(t *testing.T) {
	l := newLedger(map[string]int64{shared.HostDevice: 100, "cuda:0": 100}, 0)
	l.accounts["busy"] = &account{slotID: "busy", device: "cuda:0", holding: holding{held: amount{10, 90}}}
	l.accounts["a"] = &account{slotID: "a", device: "cuda:0"}
	l.accounts["b"] = &account{slotID: "b", device: "cpu"}
	l.accounts["c"] = &account{slotID: "c", device: "cuda:0"}
	l.queue = []claim{
		{slotID: "a", need: amount{10, 50}, urgent: true}, {slotID: "c", need: amount{10, 5}, urgent: true}, {slotID: "b", need: amount{10, 500}, urgent: true},
	}
	out, _ := l.settle(time.Unix(0, 0))
	if len(out) != 1 || !out[0].granted || out[0].slotID != "b" || len(l.queue) != 2 {
		t.Fatalf("decided %+v, waiting %+v", out, l.queue)
	}
}

func TestLedgerKeepsAGrantThatTheSlotHasNotHeardOf(t *testing.T) {
	l := newLedger(map[string]int64{shared.HostDevice: 100}, 0)
	l.accounts["a"] = &account{slotID: "a", device: "cpu"}
	l.queue = []claim{{slotID: "a", need: amount{60, 1}}}
	if out, _ := l.settle(time.Unix(0, 0)); len(out) != 1 || !out[0].granted {
		t.Fatalf("decided %+v", out)
	}
	l.say("a", holding{}) // sent before the grant came
	if l.held(shared.HostDevice) != 60 {
		t.Errorf("after an old word %d are held", l.held(shared.HostDevice))
	}
	l.say("a", holding{grants: 1})
	if l.held(shared.HostDevice) != 0 {
		t.Errorf("after a new word %d are held", l.held(shared.HostDevice))
	}
}
