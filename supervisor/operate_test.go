package supervisor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// The worker may still be winding down what was cancelled here.
func TestEvictionAsksAgainWhileTheWorkerIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		busy := time.Now().Add(time.Second)
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onEvict = func(ctx context.Context) error {
					if time.Now().Before(busy) {
						return shared.Errorf(shared.KindBusy, "cannot evict: the slot is prefetching")
					}
					return ctx.Err()
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		start := time.Now()
		if _, err := r.Evict(t.Context(), "a", false); err != nil || time.Since(start) != time.Second {
			t.Errorf("evict took %s: %v", time.Since(start), err)
		}
		if info := r.slot("a"); info.Restarts != 0 || info.Status != shared.SlotEmpty || info.Process != shared.ProcessUp {
			t.Errorf("the slot is %+v", info)
		}
	})
}

func TestEvictionThatFailsEndsTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, n int, w *fakeWorker) {
				if n == 1 {
					w.onEvict = func(ctx context.Context) error {
						<-ctx.Done()
						return ctx.Err()
					}
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		start := time.Now()
		info, err := r.Evict(t.Context(), "a", false)
		if err != nil || info.Status != shared.SlotEmpty || info.HostBufferID != "" || time.Since(start) != r.cfg.DrainTimeout {
			t.Errorf("after %s: %v, %+v", time.Since(start), err, info)
		}
		r.mustAsk("a")
	})
}

func TestEvictWaitsForRequestsAndThenCancels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					if err := emit(shared.Chunk{Text: "once upon a time"}); err != nil {
						return shared.Result{}, err
					}
					return shared.Result{}, pause(ctx, time.Duration(q.MaxTokens)*time.Second)
				}
			}
		})
		defer r.end()
		tokens := func(n int) func(*shared.GenerateRequest) {
			return func(q *shared.GenerateRequest) { q.MaxTokens = n }
		}
		short, long := make(chan error, 1), make(chan error, 1)
		r.mustAsk("a", tokens(0))
		go func() { _, _, err := r.ask(t.Context(), "a", tokens(10)); short <- err }()
		go func() { _, _, err := r.ask(t.Context(), "a", tokens(100)); long <- err }()
		synctest.Wait()
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			if info := r.slot("a"); info.Status != shared.SlotEvicting || info.InFlight != 2 {
				t.Errorf("meanwhile the slot is %+v", info)
			}
		}()
		info, err := r.Evict(t.Context(), "a", false)
		if err != nil || info.Status != shared.SlotEmpty || info.HostBufferID == "" || info.DeviceBufferID != "" {
			t.Errorf("evict: %v, %+v", err, info)
		}
		if took := time.Since(start); took != r.cfg.DrainTimeout {
			t.Errorf("the eviction took %s", took)
		}
		if err := <-short; err != nil {
			t.Errorf("the request that had time to end: %v", err)
		}
		e := errorOf(t, <-long, shared.KindCancelled)
		if !strings.Contains(e.Text(), "evicted") {
			t.Errorf("the cancelled request is told %q", e.Text())
		}
		w := r.launcher.process("a").worker
		r.mustAsk("a", tokens(0))
		if w.count("prefetch") != 1 || w.count("activate") != 2 {
			t.Errorf("%d prefetches, %d activations: the host buffer was not used", w.count("prefetch"), w.count("activate"))
		}
	})
}

func TestPreparationNobodyWaitsForIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cancelled := false
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error {
					if err := pause(ctx, time.Minute); err != nil {
						cancelled = true
						return err
					}
					return nil
				}
			}
		})
		defer r.end()
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { _, _, err := r.ask(first, "a"); ended <- err }()
		go func() { _, err := r.Prepare(second, "a", nil); ended <- err }()
		synctest.Wait()
		cancelFirst()
		synctest.Wait()
		if cancelled || r.slot("a").Status != shared.SlotPrefetching {
			t.Error("the preparation was undone although somebody waits")
		}
		cancelSecond()
		synctest.Wait()
		if info := r.slot("a"); !cancelled || info.Status != shared.SlotEmpty || info.Process != shared.ProcessUp || info.LastError != "" {
			t.Errorf("cancelled: %v, %+v", cancelled, info)
		}
		wantKind(t, <-ended, shared.KindCancelled)
		wantKind(t, <-ended, shared.KindCancelled)
	})
}

func TestCloseDrainsAndRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					return shared.Result{}, pause(ctx, time.Duration(q.MaxTokens)*time.Second)
				}
			}
		})
		results := map[int]chan error{}
		for _, seconds := range []int{5, 500} {
			ch := make(chan error, 1)
			results[seconds] = ch
			slotID := map[int]string{5: "a", 500: "b"}[seconds]
			go func() {
				_, _, err := r.ask(context.Background(), slotID, func(q *shared.GenerateRequest) { q.MaxTokens, q.Deadline = seconds, time.Hour })
				ch <- err
			}()
		}
		watched := make(chan error, 1)
		go func() { watched <- r.WatchSlots(context.Background(), func(shared.SlotList) error { return nil }) }()
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			_, _, err := r.ask(context.Background(), "a")
			wantKind(t, err, shared.KindShuttingDown)
			_, err = r.Prepare(context.Background(), "b", nil)
			wantKind(t, err, shared.KindShuttingDown)
			wantKind(t, <-watched, shared.KindShuttingDown)
		}()
		start := time.Now()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != r.cfg.DrainTimeout {
			t.Errorf("close took %s", took)
		}
		if err := <-results[5]; err != nil {
			t.Errorf("the request that had time to end: %v", err)
		}
		if err := <-results[500]; err == nil {
			t.Error("a request that was cut off succeeded")
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("a second close: %v", err)
		}
	})
}

func TestWatchSeesChangesAndTheLastState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, time.Second) }
			}
		})
		defer r.end()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []shared.SlotStatus
		ended := make(chan error, 1)
		go func() {
			ended <- r.WatchSlots(ctx, func(l shared.SlotList) error {
				if st := l.Slots[0].Status; len(seen) == 0 || seen[len(seen)-1] != st {
					seen = append(seen, st)
				}
				return nil
			})
		}()
		synctest.Wait()
		if _, err := r.Prepare(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if want := []shared.SlotStatus{shared.SlotEmpty, shared.SlotPrefetching, shared.SlotResident}; !slices.Equal(seen, want) {
			t.Errorf("the watcher saw %v, want %v", seen, want)
		}
		cancel()
		wantKind(t, <-ended, shared.KindCancelled)
	})
}

// TestWatchLeavesWorkersAlone has a watcher beside requests that come one after
// the other: each is a change, and a look at the loads is a call to the worker.
func TestWatchLeavesWorkersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var worker *fakeWorker
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(slot string, _ int, w *fakeWorker) {
				if slot != "a" {
					return
				}
				worker = w
				w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					return shared.Result{}, pause(ctx, time.Duration(q.MaxTokens)*time.Second)
				}
			}
		})
		defer r.end()
		if _, err := r.Prepare(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		lists, running := 0, 0
		go func() {
			ended <- r.WatchSlots(ctx, func(l shared.SlotList) error {
				lists++
				running = l.Slots[0].Load.SequencesRunning
				return nil
			})
		}()
		synctest.Wait()
		const requests, apart = 50, 2 * watchPace
		for range requests {
			if _, _, err := r.ask(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(apart)
		}
		synctest.Wait()
		if looks, most := worker.count("status"), 2+int(requests*apart/loadPace); looks > most {
			t.Errorf("the worker was asked for its load %d times during %d requests, at most %d were meant", looks, requests, most)
		}
		if lists < requests {
			t.Errorf("the watcher saw %d lists during %d requests", lists, requests)
		}
		hold := make(chan error, 1)
		long, stop := context.WithCancel(t.Context())
		go func() {
			_, _, err := r.ask(long, "a", func(q *shared.GenerateRequest) { q.MaxTokens, q.Deadline = 3600, time.Hour })
			hold <- err
		}()
		time.Sleep(2 * loadPace)
		synctest.Wait()
		if running != 1 {
			t.Errorf("the watcher sees %d running requests after %v, one runs", running, 2*loadPace)
		}
		stop()
		wantKind(t, <-hold, shared.KindCancelled)
		time.Sleep(2 * loadPace)
		synctest.Wait()
		if running != 0 {
			t.Errorf("the watcher still sees %d running requests", running)
		}
		cancel()
		wantKind(t, <-ended, shared.KindCancelled)
	})
}
