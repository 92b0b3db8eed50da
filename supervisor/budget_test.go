package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// budgeted is three slots and memory for two of them. A fake is estimated at
// 1000 and 2100 bytes, and measured at 1000 and 2000.
func budgeted() Config {
	return Config{
		Slots:        []shared.SlotSpec{rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "F16"), rigSlot("c", "tale", "Q8_0")},
		Budgets:      map[string]int64{shared.HostDevice: 3000, "cpu": 4200},
		MinResidency: -1,
	}
}

func (r *rig) held(budget string) int64 {
	r.t.Helper()
	for _, b := range r.list(context.Background()).Budgets {
		if b.Device == budget {
			return b.Held
		}
	}
	r.t.Fatalf("no budget %s", budget)
	return 0
}

func TestThirdSlotTakesTheLeastRecentlyUsedPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, budgeted(), nil)
		defer r.end()
		for _, id := range []string{"a", "b", "a", "c"} {
			r.mustAsk(id)
			time.Sleep(time.Second)
		}
		if a, b := r.slot("a"), r.slot("b"); a.Status != shared.SlotResident || b.Status != shared.SlotEmpty || b.HostBufferID == "" {
			t.Errorf("a is %s, b is %s with host buffer %q", a.Status, b.Status, b.HostBufferID)
		}
		if host, device := r.held(shared.HostDevice), r.held("cpu"); host != 3000 || device != 4000 {
			t.Errorf("held: host %d, device %d", host, device)
		}
		// The host buffer was kept, so there is nothing to prefetch.
		worker := r.launcher.process("b").worker
		r.mustAsk("b")
		if worker.count("prefetch") != 1 || worker.count("activate") != 2 {
			t.Errorf("b came back with %d prefetches, %d activations", worker.count("prefetch"), worker.count("activate"))
		}
	})
}

func TestHostBufferGoesWhenTheHostBudgetIsShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted()
		cfg.Budgets[shared.HostDevice] = 2000
		r := newRig(t, cfg, nil)
		defer r.end()
		for _, id := range []string{"a", "b", "c"} {
			r.mustAsk(id)
			time.Sleep(time.Second)
		}
		if a := r.slot("a"); a.Status != shared.SlotEmpty || a.HostBufferID != "" || a.HostHeld != 0 {
			t.Errorf("a is %+v", a)
		}
		if host := r.held(shared.HostDevice); host != 2000 {
			t.Errorf("held: host %d", host)
		}
	})
}

func TestBusyAndPinnedSlotsStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted()
		cfg.Slots[0].Pin = true
		release := make(chan struct{})
		r := newRig(t, cfg, func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				if slotID == "b" {
					w.onGenerate = func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
						<-release
						return w.answer(ctx, req, emit)
					}
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		var busy sync.WaitGroup
		busy.Go(func() { r.mustAsk("b") })
		synctest.Wait()
		// c waits for b, which is busy; a is pinned.
		_, _, err := r.ask(t.Context(), "c", deadline(time.Minute))
		wantKind(t, err, shared.KindDeadline)
		if b := r.slot("b"); b.Status != shared.SlotActive {
			t.Errorf("b is %s", b.Status)
		}
		busy.Go(func() { r.mustAsk("c") })
		synctest.Wait()
		close(release)
		busy.Wait()
		if a, b, c := r.slot("a"), r.slot("b"), r.slot("c"); a.Status != shared.SlotResident || b.Status != shared.SlotEmpty || c.Status != shared.SlotResident {
			t.Errorf("a %s, b %s, c %s", a.Status, b.Status, c.Status)
		}
	})
}

func TestRefusalBeforeLoading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted()
		cfg.Slots[0].Pin, cfg.Slots[1].Pin = true, true
		r := newRig(t, cfg, nil)
		defer r.end()
		r.mustAsk("a")
		r.mustAsk("b")
		_, _, err := r.ask(t.Context(), "c")
		e := errorOf(t, err, shared.KindUnavailable)
		for _, want := range []string{"device cpu is short", "a holds", "b holds", "(pinned)"} {
			if !strings.Contains(e.Text(), want) {
				t.Errorf("the refusal %q lacks %q", e.Text(), want)
			}
		}
		if r.launcher.launched("c") != 0 {
			t.Error("a process was started for a slot that there is no room for")
		}
	})
}

func TestPreloadEvictsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted()
		for i := range cfg.Slots {
			cfg.Slots[i].Preload = true
		}
		r := newRig(t, cfg, nil)
		defer r.end()
		synctest.Wait()
		resident, refused := 0, ""
		for _, info := range r.list(t.Context()).Slots {
			if info.Status == shared.SlotResident {
				resident++
			} else {
				refused = info.LastError
			}
		}
		if resident != 2 || !strings.Contains(refused, "short") {
			t.Errorf("%d slots are resident, the other says %q", resident, refused)
		}
	})
}

func TestMinimumResidency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted()
		cfg.MinResidency = 10 * time.Second
		r := newRig(t, cfg, nil)
		defer r.end()
		r.mustAsk("a")
		r.mustAsk("b")
		start := time.Now()
		r.mustAsk("c")
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("c took a place after %s", took)
		}
	})
}

func TestIdleSlotIsEvicted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := twoSlots()
		cfg.Slots[0].IdleTTL = time.Minute
		r := newRig(t, cfg, func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					if err := pause(ctx, 2*time.Minute); err != nil { // longer than the ttl, and not cut
						return shared.Result{}, err
					}
					return w.answer(ctx, req, emit)
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		r.mustAsk("b")
		if a := r.slot("a"); a.Status != shared.SlotEmpty || a.HostBufferID == "" {
			t.Errorf("two minutes after its use a is %s", a.Status)
		}
		r.mustAsk("a")
		time.Sleep(59 * time.Second)
		if a := r.slot("a"); a.Status != shared.SlotResident {
			t.Errorf("59 s after its use a is %s", a.Status)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if a := r.slot("a"); a.Status != shared.SlotEmpty {
			t.Errorf("61 s after its use a is %s", a.Status)
		}
		if b := r.slot("b"); b.Status != shared.SlotResident {
			t.Errorf("b has no ttl and is %s", b.Status)
		}
	})
}

func TestFirstRequestsTogetherClaimOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, budgeted(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, time.Second) }
			}
		})
		defer r.end()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { r.mustAsk("a") })
		}
		all.Wait()
		w := r.launcher.process("a").worker
		if w.count("prefetch") != 1 || w.count("activate") != 1 || r.launcher.launched("a") != 1 {
			t.Errorf("%d prefetches, %d activations, %d launches", w.count("prefetch"), w.count("activate"), r.launcher.launched("a"))
		}
	})
}

// A storm of requests, cancellations, crashes and commands over three slots with
// memory for two. The budgets hold at each moment, and when it is over the
// ledger has exactly what the workers have.
func TestBudgetStorm(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { bubble(t, func(t *testing.T) { budgetStorm(t, seed) }) })
	}
}

func budgetStorm(t *testing.T, seed uint64) {
	d := &dice{rnd: rand.New(rand.NewPCG(seed, 2))}
	cfg := budgeted()
	cfg.Budgets[shared.HostDevice] = 2500
	cfg.Restart = shared.RestartPolicy{Attempts: 1000, Interval: time.Minute, Delay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Mode: shared.RestartDelay}
	cfg.DrainTimeout = 300 * time.Millisecond
	r := newRig(t, cfg, func(r *rig) { r.launcher.script = func(_ string, _ int, w *fakeWorker) { stormy(d, w) } })
	ids := []string{"a", "b", "c"}
	var everybody sync.WaitGroup
	for range 40 {
		everybody.Go(func() {
			for range 10 {
				id := ids[d.n(3)]
				ctx, cancel := context.WithTimeout(t.Context(), d.ms(3000)+time.Millisecond)
				switch d.n(12) {
				case 0:
					if p := r.launcher.process(id); p != nil {
						p.die(ExitInfo{Signal: "killed"})
					}
				case 1:
					_, _ = r.Evict(ctx, id, d.n(2) == 0)
				case 2:
					_, _ = r.Prepare(ctx, id, nil)
				default:
					start := time.Now()
					_, _, err := r.ask(ctx, id, deadline(3*time.Second))
					if took := time.Since(start); took > 3*time.Second {
						t.Errorf("a request took %s: %v", took, err)
					}
				}
				cancel()
				r.checkBudgets(t)
			}
		})
	}
	everybody.Wait()
	for _, id := range ids {
		calm(r, id)
		r.mustAsk(id)
	}
	synctest.Wait()
	var host, device int64
	for _, id := range ids {
		w := r.launcher.process(id).worker
		w.mu.Lock()
		if w.host {
			host += 1000
		}
		if w.device {
			device += 2000
		}
		w.mu.Unlock()
	}
	if r.held(shared.HostDevice) != host || r.held("cpu") != device {
		t.Errorf("the ledger has host %d and device %d, the workers %d and %d", r.held(shared.HostDevice), r.held("cpu"), host, device)
	}
	r.end()
}

func (r *rig) checkBudgets(t *testing.T) {
	for _, b := range r.list(context.Background()).Budgets {
		if b.Held > b.Limit || b.Held < 0 {
			t.Errorf("%s holds %d of %d", b.Device, b.Held, b.Limit)
		}
	}
	// The workers together never have more than the budgets either.
	var host, device int64
	r.launcher.mu.Lock()
	for _, p := range r.launcher.alive {
		p.worker.mu.Lock()
		if p.worker.host {
			host += 1000
		}
		if p.worker.device {
			device += 2000
		}
		p.worker.mu.Unlock()
	}
	r.launcher.mu.Unlock()
	if host > r.cfg.Budgets[shared.HostDevice] || device > r.cfg.Budgets["cpu"] {
		t.Error(errors.New("the workers allocate more than the budgets"), host, device)
	}
}
