package slotworker

import (
	"sync/atomic"

	"github.com/firstframe/firstframe/shared"
)

// mirror is what Status may show without asking the owner.
type mirror struct {
	slotID      string
	status      shared.SlotStatus
	identity    shared.Identity
	hostBytes   int64
	deviceBytes int64
	pinned      bool
	scheduler   *scheduler // for its gauges, as the next; nil unless resident
	embedder    *embedder
}

// load is how many requests run and how many wait.
func (m *mirror) load() (running, waiting int) {
	if m.scheduler == nil {
		return 0, 0
	}
	running = int(m.scheduler.running.Load())
	return running, max(0, int(m.scheduler.inSystem.Load())-running)
}

// ask is one function for the owner to run.
type ask struct {
	f        func(*slotState)
	answered chan struct{}
}

// owner runs functions on the slot's state, one at a time.
type owner struct {
	asks   chan ask
	quit   chan struct{}
	done   chan struct{}
	mirror atomic.Pointer[mirror] // written only by run
}

func newOwner() *owner {
	o := &owner{
		asks: make(chan ask),
		quit: make(chan struct{}),
		done: make(chan struct{}),
	}
	o.mirror.Store(&mirror{status: shared.SlotEmpty})
	go o.run()
	return o
}

func (o *owner) run() {
	defer close(o.done)
	state := slotState{status: shared.SlotEmpty}
	for {
		select {
		case a := <-o.asks:
			a.f(&state)
			o.reflect(&state) // before the answer, so that Status agrees with it
			close(a.answered)
		case <-o.quit:
			return
		}
	}
}

// reflect renews the mirror after a change that it shows. Users come and go
// without one.
func (o *owner) reflect(s *slotState) {
	old := o.mirror.Load()
	now := mirror{slotID: s.slotID, status: s.status}
	if s.host != nil {
		now.hostBytes, now.pinned = s.host.size(), s.host.pinned
	}
	if r := s.resident; r != nil {
		now.identity, now.deviceBytes, now.scheduler, now.embedder = r.identity, r.deviceBytes, r.scheduler, r.embedder
	}
	if now != *old {
		o.mirror.Store(&now)
	}
}

// ask runs f on the state and waits for it. It fails once the owner has ended.
func (o *owner) ask(f func(*slotState)) error {
	a := ask{f: f, answered: make(chan struct{})}
	select {
	case o.asks <- a:
		<-a.answered
		return nil
	case <-o.done:
		return shared.Errorf(shared.KindShuttingDown, "the worker has ended")
	}
}
