package supervisor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// crash ends the worker as an abort would.
func (w *fakeWorker) crash() {
	w.proc.die(ExitInfo{Signal: "aborted", LogTail: []string{"GGML_ASSERT(n > 0) failed", "more"}})
}

func TestCrashInEachStateEndsInAnAnswer(t *testing.T) {
	crashOnce := func(set func(*fakeWorker, func(context.Context) error)) func(string, int, *fakeWorker) {
		return func(_ string, n int, w *fakeWorker) {
			if n == 1 {
				set(w, func(ctx context.Context) error {
					w.crash()
					<-ctx.Done()
					return ctx.Err()
				})
			}
		}
	}
	for name, script := range map[string]func(string, int, *fakeWorker){
		"prefetching": crashOnce(func(w *fakeWorker, f func(context.Context) error) { w.onPrefetch = f }),
		"activating":  crashOnce(func(w *fakeWorker, f func(context.Context) error) { w.onActivate = f }),
		"before the first chunk": func(_ string, n int, w *fakeWorker) {
			if n == 1 {
				w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
					w.crash()
					<-ctx.Done()
					return shared.Result{}, ctx.Err()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, twoSlots(), func(r *rig) { r.launcher.script = script })
				defer r.end()
				if res := r.mustAsk("a"); res.SlotHit {
					t.Error("a request that waited for a restart counts as a hit")
				}
				if info := r.slot("a"); info.Restarts != 1 || info.LastError != "" {
					t.Errorf("after the restart: %+v", info)
				}
			})
		})
	}
}

func TestIdleCrashIsRepaired(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		r.mustAsk("a")
		r.mustAsk("b")
		r.launcher.process("a").worker.crash()
		synctest.Wait()
		info := r.slot("a")
		if info.Status != shared.SlotEmpty || info.Process != shared.ProcessBackoff || info.PID != 0 || info.HostBufferID != "" {
			t.Errorf("after the crash: %+v", info)
		}
		if !strings.Contains(info.LastError, "signal aborted") || !strings.Contains(info.LastError, "GGML_ASSERT") || len(info.LogTail) != 2 {
			t.Errorf("the error says %q, log tail %q", info.LastError, info.LogTail)
		}
		// The other slot does not notice.
		start := time.Now()
		if res := r.mustAsk("b"); !res.SlotHit || time.Since(start) != 0 {
			t.Errorf("slot b took %s", time.Since(start))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if info := r.slot("a"); info.Status != shared.SlotResident || info.Restarts != 1 {
			t.Errorf("the slot was resident and should be again: %+v", info)
		}
	})
}

func TestCrashLoopEndsInFailedAndRestartRevives(t *testing.T) {
	bubble(t, func(t *testing.T) {
		healthy := false
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				if slotID == "a" && !healthy {
					w.onPrefetch = func(ctx context.Context) error {
						w.crash()
						<-ctx.Done()
						return ctx.Err()
					}
				}
			}
		})
		defer r.end()
		start := time.Now()
		_, _, err := r.ask(t.Context(), "a")
		e := errorOf(t, err, shared.KindUnavailable)
		if !strings.Contains(e.Text(), "signal aborted") || len(e.LogTail) == 0 {
			t.Errorf("the error does not say how the worker ended: %+v", e)
		}
		// 0.5 + 1 + 2 s, each up to a quarter more or less.
		if took := time.Since(start); took < 2600*time.Millisecond || took > 4400*time.Millisecond || r.launcher.launched("a") != 4 {
			t.Errorf("%d launches in %s", r.launcher.launched("a"), took)
		}
		// The interval of two minutes began with the first end, just after the start.
		if e.RetryAfter > 2*time.Minute || e.RetryAfter < 115*time.Second {
			t.Errorf("the client is told to come back in %s", e.RetryAfter)
		}
		if info := r.slot("a"); info.Process != shared.ProcessFailed || info.Exit != "signal aborted" || info.RetryAfter != e.RetryAfter {
			t.Errorf("the slot is %+v", info)
		}
		start = time.Now()
		_, _, err = r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindUnavailable)
		if time.Since(start) != 0 {
			t.Error("a request waited for a failed process")
		}
		healthy = true
		if info, err := r.Restart(t.Context(), "a"); err != nil || info.Process != shared.ProcessUp {
			t.Errorf("restart: %v, %+v", err, info)
		}
		r.mustAsk("a")
	})
}

func TestLaunchThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.launch = func(_ context.Context, slotID string, n int) error {
				switch {
				case slotID == "a" && n < 3:
					return shared.Errorf(shared.KindOther, "no handshake")
				case slotID == "b":
					return shared.Errorf(shared.KindEngineMissing, "no engine")
				}
				return nil
			}
		})
		defer r.end()
		r.mustAsk("a")
		start := time.Now()
		_, _, err := r.ask(t.Context(), "b")
		wantKind(t, err, shared.KindUnavailable)
		if time.Since(start) != 0 || r.launcher.launched("b") != 1 {
			t.Error("a start that cannot succeed was tried again")
		}
	})
}

func TestWorkerLostAfterTheFirstChunkIsTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		served := 0
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
					served++
					if err := emit(shared.Chunk{Text: "once"}); err != nil {
						return shared.Result{}, err
					}
					w.crash()
					<-ctx.Done()
					return shared.Result{}, ctx.Err()
				}
			}
		})
		defer r.end()
		_, text, err := r.ask(t.Context(), "a")
		e := errorOf(t, err, shared.KindWorkerLost)
		if !strings.Contains(e.Text(), "signal aborted") || len(e.LogTail) != 2 || e.SlotID != "a" {
			t.Errorf("the error is %+v", e)
		}
		if served != 1 || text != "once" {
			t.Errorf("served %d times, text %q", served, text)
		}
	})
}

func TestWorkerLostTwiceIsTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		served := 0
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
					served++
					w.crash()
					<-ctx.Done()
					return shared.Result{}, ctx.Err()
				}
			}
		})
		defer r.end()
		_, _, err := r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindWorkerLost)
		if served != 2 {
			t.Errorf("served %d times, want one retry", served)
		}
		r.mustFailFast(t)
	})
}

// mustFailFast checks that a request that waits for nothing is told what happened.
func (r *rig) mustFailFast(t *testing.T) {
	t.Helper()
	_, _, err := r.ask(t.Context(), "a", onMiss(shared.OnMissFail))
	wantKind(t, err, shared.KindNotResident)
}

func TestLostWorkerIsRetriedOnAReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Slots: []shared.SlotSpec{rigSlot("s/0", "story", "Q8_0"), rigSlot("s/1", "story", "Q8_0")}}
		for i := range cfg.Slots {
			cfg.Slots[i].Preload = true
		}
		r := newRig(t, cfg, func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				if slotID == "s/0" {
					w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
						w.crash()
						<-ctx.Done()
						return shared.Result{}, ctx.Err()
					}
				}
			}
		})
		defer r.end()
		synctest.Wait()
		start := time.Now()
		res := r.mustAsk("", func(q *shared.GenerateRequest) { q.Requirement.Model = "story" })
		if res.SlotID != "s/1" || time.Since(start) != 0 {
			t.Errorf("served by %s after %s", res.SlotID, time.Since(start))
		}
	})
}

func TestUnreachableWorkerIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, n int, w *fakeWorker) {
				if n == 1 {
					w.onGenerate = func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
						return shared.Result{}, shared.Errorf(shared.KindWorkerLost, "connection reset")
					}
				}
			}
		})
		defer r.end()
		r.mustAsk("a")
		if n := r.launcher.launched("a"); n != 2 {
			t.Errorf("%d launches", n)
		}
	})
}

func TestWrongIdentityIsNeverServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) { w.wrong = slotID == "a" }
		})
		defer r.end()
		for range 2 {
			_, _, err := r.ask(t.Context(), "a")
			if e := errorOf(t, err, shared.KindIdentity); e.Field != "model_revision" {
				t.Errorf("the error names field %q", e.Field)
			}
		}
		w := r.launcher.process("a").worker
		if r.launcher.launched("a") != 1 || w.count("prefetch") != 1 || w.count("activate") != 0 {
			t.Error("a wrong model was loaded again, or got as far as the engine")
		}
		synctest.Wait()
		if info := r.slot("a"); info.Status != shared.SlotEmpty || info.HostBufferID != "" || info.LastError == "" || w.holds() {
			t.Errorf("the slot is %+v", info)
		}
		r.mustAsk("b")
		w.wrong = false
		if _, err := r.Prepare(t.Context(), "a", nil); err != nil {
			t.Errorf("prepare by hand after the repair: %v", err)
		}
		r.mustAsk("a")
	})
}

func TestAnswerOfAnotherIdentityIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) { w.astray = true }
		})
		defer r.end()
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindIdentity); e.Field != "precision" {
			t.Errorf("the error names field %q", e.Field)
		}
	})
}

func TestStuckProcessHoldsUpNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		r.mustAsk("a")
		r.mustAsk("b")
		r.launcher.process("a").immortal = true
		_, err := r.Restart(t.Context(), "a")
		wantKind(t, err, shared.KindUnavailable)
		_, _, err = r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindUnavailable)
		start := time.Now()
		r.mustAsk("b")
		if time.Since(start) != 0 {
			t.Errorf("slot b waited %s", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		start = time.Now()
		err = r.Close(ctx)
		wantKind(t, err, shared.KindUnavailable)
		if !strings.HasSuffix(err.Error(), ": a") {
			t.Errorf("the error blames %q", err)
		}
		if took := time.Since(start); took > r.cfg.DrainTimeout+stopGrace {
			t.Errorf("close took %s", took)
		}
		if r.launcher.process("b") != nil {
			t.Error("slot b was not closed")
		}
	})
}

func TestHangingSlotDelaysNobodyElse(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, setUp := range map[string]func(*rig){
		"spawn": func(r *rig) {
			r.launcher.launch = func(ctx context.Context, slotID string, _ int) error {
				if slotID == "a" {
					return hang(ctx)
				}
				return nil
			}
		},
		"prefetch": func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				if slotID == "a" {
					w.onPrefetch = hang
				}
			}
		},
		"activate": func(r *rig) {
			r.launcher.script = func(slotID string, _ int, w *fakeWorker) {
				if slotID == "a" {
					w.onActivate = hang
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := twoSlots()
				cfg.Slots[0].Preload = true
				r := newRig(t, cfg, setUp)
				defer r.end()
				done := make(chan error, 1)
				go func() {
					_, _, err := r.ask(t.Context(), "a")
					done <- err
				}()
				synctest.Wait()
				start := time.Now()
				r.mustAsk("b")
				r.mustAsk("b")
				if _, err := r.ListSlots(t.Context()); err != nil || time.Since(start) != 0 {
					t.Errorf("slot b and the list took %s, error %v", time.Since(start), err)
				}
				wantKind(t, <-done, shared.KindDeadline)
				if took := time.Since(start); took != r.cfg.DefaultDeadline {
					t.Errorf("the hanging request ended after %s", took)
				}
			})
		})
	}
}
