package slotworker

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// held starts a request that stays in its second step until let go.
func (s *slot) held(ctx context.Context) (ended chan answer, steps *atomic.Int32, letGo func()) {
	s.t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	steps = new(atomic.Int32)
	s.engine.model.decodeHook = func([]Row) error {
		if steps.Add(1) == 2 {
			close(entered)
			<-leave
		}
		return nil
	}
	ended = make(chan answer, 1)
	go func() { ended <- s.generate(ctx, "hello", 50, nil) }()
	wait(s.t, entered)
	return ended, steps, func() { close(leave) }
}

func TestEvictWaitsForRequests(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.prepare()
	ended, _, letGo := s.held(t.Context())
	if st := s.status(); st.Status != shared.SlotActive || st.SequencesRunning != 1 || st.KVTokensUsed == 0 {
		t.Errorf("with a request: %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Evict(ctx, false); shared.KindOf(err) != shared.KindBusy {
		t.Errorf("an eviction without patience: %v", err)
	}
	if st := s.status(); st.Status != shared.SlotActive {
		t.Errorf("afterwards the slot is %s", st.Status)
	}
	evicted := make(chan error, 1)
	go func() { _, err := s.Evict(t.Context(), false); evicted <- err }()
	eventually(t, func() bool { return s.status().Status == shared.SlotEvicting })
	if got := s.generate(t.Context(), "late", 1, nil); shared.KindOf(got.err) != shared.KindNotResident {
		t.Errorf("a request during the eviction: %v", got.err)
	}
	letGo()
	if got := wait(t, ended); !slices.Equal(got.tokens, s.says("hello", 50)) {
		t.Errorf("the old request: %v", got.err)
	}
	if err := wait(t, evicted); err != nil {
		t.Error(err)
	}
}

func TestCallerLeavesWhileTheEngineIsStuck(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.prepare()
	ctx, cancel := context.WithCancel(t.Context())
	ended, steps, letGo := s.held(ctx)
	cancel()
	if got := wait(t, ended); shared.KindOf(got.err) != shared.KindCancelled {
		t.Errorf("got %v", got.err)
	}
	if hb, _ := s.Heartbeat(t.Context()); hb.Running != 1 {
		t.Errorf("the engine still works for it, but %d run", hb.Running)
	}
	letGo()
	eventually(t, func() bool { hb, _ := s.Heartbeat(t.Context()); return hb.Running == 0 && hb.Waiting == 0 })
	if n := steps.Load(); n != 2 {
		t.Errorf("%d steps were made for a request whose caller left in the second", n)
	}
	if st := s.status(); st.KVTokensUsed != 0 {
		t.Errorf("its tokens are still there: %+v", st)
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		s.engine.model.decodeHook = func([]Row) error { time.Sleep(time.Second); return nil }
		start := time.Now()
		_, err := s.Generate(t.Context(), shared.GenerateRequest{Identity: s.expected, Prompt: "hello", Deadline: 2500 * time.Millisecond}, func(shared.Chunk) error { return nil })
		if shared.KindOf(err) != shared.KindDeadline || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		s.engine.model.decodeHook = func([]Row) error { time.Sleep(time.Second); return nil }
		short, long := make(chan answer, 1), make(chan answer, 1)
		go func() { short <- s.generate(t.Context(), "a", 3, nil) }()
		time.Sleep(time.Millisecond)
		go func() { long <- s.generate(t.Context(), "b", 100, nil) }()
		time.Sleep(time.Millisecond)
		cancelled, err := s.Drain(t.Context(), 10*time.Second)
		if err != nil || cancelled != 1 {
			t.Errorf("drain gave %d, %v", cancelled, err)
		}
		if got := <-short; got.err != nil || len(got.tokens) != 3 {
			t.Errorf("the short request: %v", got.err)
		}
		if got := <-long; shared.KindOf(got.err) != shared.KindShuttingDown {
			t.Errorf("the long request: %v", got.err)
		}
		if got := s.generate(t.Context(), "c", 1, nil); shared.KindOf(got.err) != shared.KindShuttingDown {
			t.Errorf("a request after the drain: %v", got.err)
		}
		if _, err := s.prefetch(t.Context()); shared.KindOf(err) != shared.KindShuttingDown {
			t.Errorf("a prefetch after the drain: %v", err)
		}
	})
}
