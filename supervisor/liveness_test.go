package supervisor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// freeze makes a worker like a stopped process: nothing answers until it ends.
func (w *fakeWorker) freeze() {
	stuck := func(ctx context.Context) error {
		select {
		case <-w.proc.done:
			return shared.Errorf(shared.KindWorkerLost, "transport is closing")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onHeartbeat = func(ctx context.Context) (shared.HeartbeatResult, error) { return shared.HeartbeatResult{}, stuck(ctx) }
}

func watchful() Config {
	cfg := twoSlots()
	cfg.WedgeAfter, cfg.Heartbeat = 4*time.Second, time.Second
	return cfg
}

func TestStoppedWorkerIsKilledInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var frozen time.Time
		r := newRig(t, watchful(), func(r *rig) {
			r.launcher.script = func(slotID string, n int, w *fakeWorker) {
				if slotID != "a" || n > 1 {
					return
				}
				w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					if err := emit(shared.Chunk{Text: "once "}); err != nil {
						return shared.Result{}, err
					}
					w.freeze()
					frozen = time.Now()
					<-ctx.Done()
					return shared.Result{}, ctx.Err()
				}
			}
		})
		defer r.end()
		_, text, err := r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindWorkerLost)
		if took := time.Since(frozen); took > 5*time.Second || text != "once " {
			t.Errorf("the caller was told after %s, with text %q", took, text)
		}
		if info := r.slot("a"); !strings.Contains(info.LastError, "no sign of life for 4s") || info.Exit != "signal killed" {
			t.Errorf("the slot says %q, %q", info.LastError, info.Exit)
		}
		r.mustAsk("a") // it has come back
	})
}

func TestLoadIsTimedByLackOfProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		steps := 30 // of a second each, far beyond the time to be called wedged
		r := newRig(t, watchful(), func(r *rig) {
			r.launcher.script = func(slotID string, n int, w *fakeWorker) {
				if slotID != "a" {
					return
				}
				w.onPrefetch = func(ctx context.Context) error {
					for i := range 60 {
						if i < steps || n > 1 {
							w.progress.Add(1)
						}
						if n > 1 && i > 2 {
							return nil
						}
						if err := pause(ctx, time.Second); err != nil {
							return err
						}
					}
					return nil
				}
			}
		})
		defer r.end()
		start := time.Now()
		r.mustAsk("a")
		// The first load got on for 30 s, and was ended 4 s after its last step.
		if took := time.Since(start); took < 33*time.Second || took > 42*time.Second || r.launcher.launched("a") != 2 {
			t.Errorf("%d launches in %s", r.launcher.launched("a"), took)
		}
	})
}

func TestCutOffWorkerIsReplacedWithoutLosingRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, watchful(), func(r *rig) {
			r.launcher.script = func(_ string, n int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					if n == 1 {
						w.proc.launcher.mu.Lock()
						w.proc.cutOff = shared.Errorf(shared.KindUnavailable, "the socket is gone")
						w.proc.launcher.mu.Unlock()
					}
					if err := pause(ctx, 3*time.Second); err != nil {
						return shared.Result{}, err
					}
					return w.answer(ctx, req, emit)
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		synctest.Wait()
		r.mustAsk("a")
		if info := r.slot("a"); info.Restarts != 1 || r.launcher.launched("a") != 2 {
			t.Errorf("after a lost socket: %+v", info)
		}
	})
}

func TestSlowHeartbeatsAreNotAskedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked atomic.Int32
		r := newRig(t, watchful(), func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				w.onHeartbeat = func(ctx context.Context) (shared.HeartbeatResult, error) {
					if slotID == "a" {
						asked.Add(1)
					}
					return shared.HeartbeatResult{}, pause(ctx, 1900*time.Millisecond)
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		time.Sleep(20 * time.Second)
		if info := r.slot("a"); info.Restarts != 0 || asked.Load() < 8 || asked.Load() > 11 {
			t.Errorf("asked %d times, the slot is %+v", asked.Load(), info)
		}
	})
}
