package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

// A known delay in one place lands in that phase, in full, and nowhere else. On
// the bubble's clock nothing but the injected delay takes time, so the account
// is exact. All delays come from what the supervisor is given: files, launcher,
// process and worker.
func TestInjectedDelayLandsInItsPhase(t *testing.T) {
	const d = 70 * time.Millisecond
	delay := func(ctx context.Context) error { return pause(ctx, d) }
	worker := shared.Phases{
		Queue: 1 * time.Millisecond, SlotActivation: 2 * time.Millisecond, ContextLookup: 3 * time.Millisecond,
		Prefill: 4 * time.Millisecond, DecodeFirstToken: 5 * time.Millisecond,
	}
	for name, c := range map[string]struct {
		setUp      func(*rig)
		warm       bool // the slot is resident before
		lag        time.Duration
		want       shared.Phases
		activation shared.ActivationDetail
	}{
		"route": {
			setUp: func(r *rig) { r.files.hashing = d },
			want:  shared.Phases{Route: d},
		},
		"queue": {
			warm: true,
			want: shared.Phases{Queue: d},
		},
		"slot_activation, spawn": {
			setUp: func(r *rig) {
				r.launcher.launch = func(ctx context.Context, _ string, _ int) error { return delay(ctx) }
			},
			want:       shared.Phases{SlotActivation: d},
			activation: shared.ActivationDetail{Spawn: d},
		},
		"slot_activation, prefetch": {
			setUp: func(r *rig) {
				r.launcher.script = func(_ string, _ int, w *fakeWorker) { w.onPrefetch = delay }
			},
			want:       shared.Phases{SlotActivation: d},
			activation: shared.ActivationDetail{Prefetch: d},
		},
		"slot_activation, activate": {
			setUp: func(r *rig) {
				r.launcher.script = func(_ string, _ int, w *fakeWorker) {
					w.onActivate = delay
					w.activation = shared.ActivateResult{Transfer: 30 * time.Millisecond, Warmup: 25 * time.Millisecond, Canary: 15 * time.Millisecond}
				}
			},
			want:       shared.Phases{SlotActivation: d},
			activation: shared.ActivationDetail{Transfer: 30 * time.Millisecond, Warmup: 25 * time.Millisecond, Canary: 15 * time.Millisecond},
		},
		"what the worker measured": {
			setUp: func(r *rig) {
				r.launcher.script = func(_ string, _ int, w *fakeWorker) {
					w.phases = worker
					answer := w.answer
					w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
						if err := pause(ctx, worker.Sum()); err != nil {
							return shared.Result{}, err
						}
						return answer(ctx, q, emit)
					}
				}
			},
			want: worker,
		},
		"other, the way to the worker": {
			setUp: func(r *rig) {
				r.launcher.script = func(_ string, _ int, w *fakeWorker) {
					answer := w.answer
					w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
						if err := delay(ctx); err != nil {
							return shared.Result{}, err
						}
						return answer(ctx, q, emit)
					}
				}
			},
			want: shared.Phases{Other: d},
		},
		"first_chunk_flush": {
			lag:  d,
			want: shared.Phases{FirstChunkFlush: d},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, twoSlots(), c.setUp)
				defer r.end()
				if c.warm {
					r.mustAsk("a")
					synctest.Wait()
					r.launcher.process("a").slowWorker = d
				}
				start := time.Now()
				got, err := shared.GenerateAtEdge(t.Context(), r.Supervisor, start,
					shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "a"}, Prompt: "x"},
					func(ch shared.Chunk) error {
						if ch.Text != "" {
							return pause(t.Context(), c.lag)
						}
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got.Phases); diff != "" {
					t.Errorf("phases (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.activation, got.Activation); diff != "" {
					t.Errorf("parts of the activation (-want +got):\n%s", diff)
				}
				if got.Phases.Sum() != got.FirstChunk || got.SlotHit != c.warm {
					t.Errorf("sum %s, first chunk %s, hit %v", got.Phases.Sum(), got.FirstChunk, got.SlotHit)
				}
				if final := got.Result.Phases; final.Sum() != got.Phases.Sum()-got.Phases.FirstChunkFlush-got.Phases.Other {
					t.Errorf("the result's phases %v are not the first chunk's %v", final, got.Phases)
				}
			})
		})
	}
}

// A request that joins a preparation half way is told only of what it waited for.
func TestActivationDetailIsWhatTheRequestWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.launch = func(ctx context.Context, _ string, _ int) error { return pause(ctx, 2*time.Second) }
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, 4*time.Second) }
			}
		})
		defer r.end()
		go func() {
			if _, err := r.Prepare(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(3 * time.Second)
		res := r.mustAsk("a")
		if want := (shared.ActivationDetail{Prefetch: 3 * time.Second}); res.Activation != want || res.Phases.SlotActivation != 3*time.Second {
			t.Errorf("activation %v with parts %+v", res.Phases.SlotActivation, res.Activation)
		}
	})
}

// The time that a lost worker cost belongs to the wait for one that works.
func TestPhasesOfARetriedRequestStillAddUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, n int, w *fakeWorker) {
				if n == 1 {
					w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
						if err := pause(ctx, time.Second); err != nil {
							return shared.Result{}, err
						}
						w.crash()
						<-ctx.Done()
						return shared.Result{}, ctx.Err()
					}
				}
			}
		})
		defer r.end()
		got, err := shared.GenerateAtEdge(t.Context(), r.Supervisor, time.Now(),
			shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "a"}, Prompt: "x"}, func(shared.Chunk) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got.Phases.SlotActivation != got.FirstChunk || got.FirstChunk < time.Second || got.Phases.Other != 0 || got.SlotHit {
			t.Errorf("first chunk after %s: %+v", got.FirstChunk, got.Phases)
		}
	})
}
