package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// A storm of requests, cancellations, crashes and operators' commands. Whatever
// the order: every call ends within its deadline, one terminal outcome each,
// leases balance, a busy slot is never evicted, and no slot has two processes.
func TestStorm(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

// dice is random and may be thrown by everybody.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

func (d *dice) ms(most int) time.Duration { return time.Duration(d.n(most)) * time.Millisecond }

func storm(t *testing.T, seed uint64) {
	d := &dice{rnd: rand.New(rand.NewPCG(seed, 1))}
	cfg := Config{
		Slots: []shared.SlotSpec{
			rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "F16"),
			rigSlot("r/0", "tale", "Q8_0"), rigSlot("r/1", "tale", "Q8_0"),
		},
		Restart:      shared.RestartPolicy{Attempts: 1000, Interval: time.Minute, Delay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Mode: shared.RestartDelay},
		DrainTimeout: 300 * time.Millisecond,
	}
	cfg.Slots[1].Preload = true
	r := newRig(t, cfg, func(r *rig) {
		r.launcher.launch = func(ctx context.Context, _ string, _ int) error {
			if d.n(10) == 0 {
				return shared.Errorf(shared.KindOther, "no handshake")
			}
			return pause(ctx, d.ms(20))
		}
		r.launcher.script = func(_ string, _ int, w *fakeWorker) { stormy(d, w) }
	})
	targets := []shared.Requirement{
		{SlotID: "a"}, {SlotID: "b"}, {SlotID: "r/0"}, {Model: "tale"}, {Model: "story", Precision: "F16"},
	}
	var everybody sync.WaitGroup
	for range 120 {
		everybody.Go(func() {
			for range 6 {
				r.throw(t, d, targets)
			}
		})
	}
	everybody.Wait()
	// When the storm is over, every slot works again.
	for _, w := range []string{"a", "b", "r/0", "r/1"} {
		calm(r, w)
		r.mustAsk(w)
	}
	r.end()
}

// stormy makes a worker slow and unreliable.
func stormy(d *dice, w *fakeWorker) {
	trouble := func(ctx context.Context) error {
		switch d.n(20) {
		case 0:
			w.crash()
			<-ctx.Done()
			return ctx.Err()
		case 1:
			return shared.Errorf(shared.KindEngine, "out of luck")
		}
		return pause(ctx, d.ms(30))
	}
	w.onPrefetch, w.onActivate, w.onEvict = trouble, trouble, trouble
	w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		for i := range 3 {
			if err := trouble(ctx); err != nil {
				return shared.Result{}, err
			}
			if err := emit(shared.Chunk{Text: fmt.Sprint(i)}); err != nil {
				return shared.Result{}, err
			}
		}
		return shared.Result{}, nil
	}
}

// calm ends the trouble of a slot by giving it a reliable worker.
func calm(r *rig, slotID string) {
	r.launcher.mu.Lock()
	r.launcher.script, r.launcher.launch = nil, nil
	r.launcher.mu.Unlock()
	if _, err := r.Restart(r.t.Context(), slotID); err != nil {
		r.t.Errorf("restart of %s: %v", slotID, err)
	}
}

// throw does one random thing, and checks that it ends in time.
func (r *rig) throw(t *testing.T, d *dice, targets []shared.Requirement) {
	patience := d.ms(400) + time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if d.n(3) == 0 {
		time.AfterFunc(d.ms(200), cancel)
	}
	start := time.Now()
	slotID := []string{"a", "b", "r/0", "r/1"}[d.n(4)]
	switch d.n(14) {
	case 0:
		if p := r.launcher.process(slotID); p != nil {
			p.die(ExitInfo{Signal: "killed"})
		}
	case 1:
		_, err := r.Restart(ctx, slotID)
		_ = err // refused when the next launch fails, which is as it should be
	case 2, 3:
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := r.Evict(ctx, slotID, d.n(2) == 0)
		_ = err
	case 4:
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := r.Prepare(ctx, slotID, nil)
		_ = err
	case 5:
		if _, err := r.ListSlots(ctx); err != nil || time.Since(start) != 0 {
			t.Errorf("the list took %s: %v", time.Since(start), err)
		}
	default:
		text := ""
		req := shared.GenerateRequest{
			Requirement: targets[d.n(len(targets))], Prompt: "x", Deadline: patience,
			OnMiss: []shared.OnMiss{"", shared.OnMissPending, shared.OnMissFail}[d.n(3)],
		}
		_, err := r.Generate(ctx, req, func(c shared.Chunk) error {
			text += c.Text
			return nil
		})
		if err == nil && text != "012" {
			t.Errorf("a request that succeeded gave %q", text)
		}
		if took := time.Since(start); took > patience {
			t.Errorf("a request with a deadline of %s took %s: %v", patience, took, err)
		}
	}
}
