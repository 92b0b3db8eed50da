package supervisor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// testEnv is what one slot needs, with fakes.
func testEnv(l Launcher, changed func()) *slotEnv {
	return &slotEnv{
		heartbeat: time.Second, wedgeAfter: time.Hour,
		launcher: l, restart: Config{}.withDefaults().Restart, drainTimeout: time.Second,
		log: hclog.NewNullLogger(), changed: changed,
	}
}

// rawCall is a caller that does nothing by itself.
func rawCall(s *slot, newEvent func(callID) event) *call {
	c := &call{
		id: callID(s.env.calls.Add(1)), ctx: context.Background(),
		answer: make(chan answer, 1), progress: make(chan shared.Progress, 1), since: time.Now(),
	}
	s.post(message{ev: newEvent(c.id), call: c})
	return c
}

// A caller may give up in the very moment in which it is granted a lease.
func TestLeaseGrantedToACallerThatLeftComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSlot(rigSlot("a", "story", "Q8_0"), testEnv(newFakeLauncher(), func() {}))
		s.declare(identityOf("story", "Q8_0"), amount{host: 1}, nil)
		c := rawCall(s, func(id callID) event { return evAcquire{call: id} })
		synctest.Wait()
		if info := s.info(); info.Status != shared.SlotActive || info.InFlight != 1 || len(c.answer) != 1 {
			t.Fatalf("the lease was not granted: %+v", info)
		}
		s.leave(c)
		synctest.Wait()
		if info := s.info(); info.Status != shared.SlotResident || info.InFlight != 0 {
			t.Errorf("the lease did not come back: %+v", info)
		}
		s.close()
		<-s.done
	})
}

func TestLeaseIsGivenBackOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSlot(rigSlot("a", "story", "Q8_0"), testEnv(newFakeLauncher(), func() {}))
		s.declare(identityOf("story", "Q8_0"), amount{host: 1}, nil)
		first, err := s.acquire(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.acquire(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		first.release()
		first.release()
		synctest.Wait()
		if n := s.info().InFlight; n != 1 {
			t.Errorf("%d leases are out", n)
		}
		second.release()
		s.close()
		<-s.done
		if _, err := s.acquire(t.Context(), "", nil); shared.KindOf(err) != shared.KindShuttingDown {
			t.Errorf("a closed slot answers %v", err)
		}
	})
}

// Whoever gets an answer sees the state that it tells of.
func TestViewIsThereBeforeTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var waiting atomic.Pointer[call]
		early := make(chan bool, 10)
		var s *slot
		env := testEnv(newFakeLauncher(), func() {
			if c := waiting.Load(); c != nil && s.info().Status == shared.SlotResident {
				early <- len(c.answer) > 0
			}
		})
		s = newSlot(rigSlot("a", "story", "Q8_0"), env)
		waiting.Store(rawCall(s, func(id callID) event { return evPrepare{call: id} }))
		s.declare(identityOf("story", "Q8_0"), amount{host: 1}, nil)
		if <-early {
			t.Error("the answer came before the view")
		}
		waiting.Store(nil)
		s.close()
		<-s.done
	})
}

// A caller that takes no progress does not keep the slot from its work.
func TestSlowReaderOfProgressHoldsUpNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, time.Second) }
			}
		})
		defer r.end()
		stuck := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := r.Prepare(t.Context(), "a", func(shared.Progress) { <-stuck })
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		r.mustAsk("a")
		if took := time.Since(start); took != time.Second {
			t.Errorf("the other request took %s", took)
		}
		close(stuck)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What was running in a process that is gone must not go on.
func TestExitEndsWhatWasRunning(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cancelled := make(chan struct{})
		l := newFakeLauncher()
		l.script = func(_ string, n int, w *fakeWorker) {
			if n == 1 {
				w.deaf = true
				w.onPrefetch = func(ctx context.Context) error {
					<-ctx.Done()
					close(cancelled)
					return ctx.Err()
				}
			}
		}
		s := newSlot(rigSlot("a", "story", "Q8_0"), testEnv(l, func() {}))
		s.declare(identityOf("story", "Q8_0"), amount{host: 1}, nil)
		prepared := make(chan error, 1)
		go func() { prepared <- s.prepare(t.Context(), nil) }()
		synctest.Wait()
		l.process("a").worker.crash()
		synctest.Wait()
		select {
		case <-cancelled:
		default:
			t.Error("the prefetch of a dead process goes on")
		}
		if err := <-prepared; err != nil {
			t.Error(err)
		}
		s.close()
		<-s.done
	})
}

func TestChooseTakesTheSlotThatServesSoonest(t *testing.T) {
	make := func(id string, status shared.SlotStatus, process shared.ProcessState, load int, err string) *slot {
		s := &slot{spec: shared.SlotSpec{SlotID: id}}
		s.view.Store(&shared.SlotInfo{SlotID: id, Status: status, Process: process, InFlight: load, LastError: err})
		return s
	}
	idle := make("idle", shared.SlotResident, shared.ProcessUp, 0, "")
	light := make("light", shared.SlotActive, shared.ProcessUp, 1, "")
	heavy := make("heavy", shared.SlotActive, shared.ProcessUp, 5, "")
	coming := make("coming", shared.SlotPrefetching, shared.ProcessUp, 0, "")
	empty := make("empty", shared.SlotEmpty, shared.ProcessStopped, 0, "")
	failed := make("failed", shared.SlotEmpty, shared.ProcessFailed, 0, "it crashed")
	for _, c := range []struct {
		slots []*slot
		avoid *slot
		want  *slot
	}{
		{[]*slot{failed}, nil, failed},
		{[]*slot{heavy, light, idle}, nil, idle},
		{[]*slot{failed, empty, coming, heavy, light}, nil, light},
		{[]*slot{failed, empty, coming}, nil, coming},
		{[]*slot{failed, empty}, nil, empty},
		{[]*slot{idle, heavy}, idle, heavy},
		{[]*slot{idle, empty}, idle, empty},
		{[]*slot{idle}, idle, idle},
	} {
		if got := choose(c.slots, c.avoid, nil); got != c.want {
			t.Errorf("of %v without %v: %s, want %s", slotIDs(c.slots), c.avoid, got.spec.SlotID, c.want.spec.SlotID)
		}
	}
}

func TestExitInfoSaysHowAndWhy(t *testing.T) {
	tail := []string{"GGML_ASSERT(x) failed", "more"}
	for _, c := range []struct {
		exit ExitInfo
		want string
	}{
		{ExitInfo{Code: 3}, "exit code 3"},
		{ExitInfo{Code: 3, LogTail: tail}, "exit code 3: GGML_ASSERT(x) failed"},
		{ExitInfo{Signal: "aborted", LogTail: tail}, "signal aborted: GGML_ASSERT(x) failed"},
		{ExitInfo{Signal: "killed", LogTail: tail}, "signal killed"},
	} {
		if got := c.exit.Cause(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
