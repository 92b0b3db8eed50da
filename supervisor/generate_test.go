package supervisor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

func twoSlots() Config {
	return Config{Slots: []shared.SlotSpec{rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "F16")}}
}

func TestColdRequestPreparesAndIsServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		res := r.mustAsk("a")
		if res.SlotHit || res.SlotID != "a" || res.Model != "story" || res.Identity.Precision != "Q8_0" || !res.Identity.Complete() {
			t.Errorf("the result is %+v", res)
		}
		synctest.Wait()
		if info := r.slot("a"); info.Status != shared.SlotResident || info.Process != shared.ProcessUp || info.HostBufferID == "" || info.DeviceBufferID == "" || info.PID == 0 {
			t.Errorf("the slot is %+v", info)
		}
		if res := r.mustAsk("a"); !res.SlotHit {
			t.Errorf("the second request did not hit: %+v", res)
		}
		if n := r.launcher.launched("b"); n != 0 {
			t.Errorf("slot b was started %d times for requests to a", n)
		}
	})
}

func TestFirstRequestsTogetherPrepareOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, time.Second) }
			}
		})
		defer r.end()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, _, err := r.ask(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w := r.launcher.process("a").worker
		if r.launcher.launched("a") != 1 || w.count("prefetch") != 1 || w.count("activate") != 1 {
			t.Errorf("%d launches, %d prefetches, %d activations for one slot", r.launcher.launched("a"), w.count("prefetch"), w.count("activate"))
		}
	})
}

func TestOnMiss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, 3*time.Second) }
			}
		})
		defer r.end()
		synctest.Wait()
		_, _, err := r.ask(t.Context(), "a", onMiss(shared.OnMissFail))
		if e := errorOf(t, err, shared.KindNotResident); e.SlotID != "a" {
			t.Errorf("the error names slot %q", e.SlotID)
		}
		if r.launcher.launched("a") != 0 {
			t.Error("a request that does not wait started a preparation")
		}
		_, _, err = r.ask(t.Context(), "a", onMiss(shared.OnMissPending))
		if e := errorOf(t, err, shared.KindPending); e.RetryAfter <= 0 || e.SlotID != "a" {
			t.Errorf("the pending answer is %+v", e)
		}
		time.Sleep(4 * time.Second)
		if res := r.mustAsk("a", onMiss(shared.OnMissFail)); !res.SlotHit {
			t.Error("the slot was not prepared by the pending request")
		}
	})
}

func TestSlotsOwnOnMissCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := twoSlots()
		cfg.Slots[0].OnMiss = shared.OnMissFail
		r := newRig(t, cfg, nil)
		defer r.end()
		synctest.Wait()
		_, _, err := r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindNotResident)
		r.mustAsk("a", onMiss(shared.OnMissWait))
	})
}

func TestDeadlineAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
					<-ctx.Done()
					return shared.Result{}, ctx.Err()
				}
			}
		})
		defer r.end()
		start := time.Now()
		_, _, err := r.ask(t.Context(), "a", deadline(7*time.Second))
		wantKind(t, err, shared.KindDeadline)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("the deadline came after %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _, err = r.ask(ctx, "a")
		wantKind(t, err, shared.KindCancelled)
		start = time.Now()
		_, _, err = r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindDeadline)
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("the default deadline is %s", took)
		}
	})
}

func TestClientThatTakesNoMoreIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		gone := errors.New("broken pipe")
		_, err := r.Generate(t.Context(), shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "a"}, Prompt: "x"},
			func(c shared.Chunk) error {
				if c.Text != "" {
					return gone
				}
				return nil
			})
		wantKind(t, err, shared.KindCancelled)
		if !errors.Is(err, gone) {
			t.Errorf("the cause is lost: %v", err)
		}
		r.mustAsk("a")
	})
}

func TestProgressReachesWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) {
			r.files.hashing = time.Second
			r.launcher.launch = func(ctx context.Context, _ string, _ int) error { return pause(ctx, time.Second) }
			r.launcher.script = func(_ string, _ int, w *fakeWorker) {
				w.onPrefetch = func(ctx context.Context) error { return pause(ctx, time.Second) }
				w.onActivate = func(ctx context.Context) error { return pause(ctx, time.Second) }
			}
		})
		defer r.end()
		var stages []string
		_, err := r.Generate(t.Context(), shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "a"}, Prompt: "x"},
			func(c shared.Chunk) error {
				if c.Progress != nil {
					if c.SlotID != "a" || c.Text != "" {
						t.Errorf("odd progress: %+v", c)
					}
					if n := len(stages); n == 0 || stages[n-1] != c.Progress.Stage {
						stages = append(stages, c.Progress.Stage)
					}
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"digest", "spawn", "read", "transfer"}
		if len(stages) != len(want) {
			t.Fatalf("the stages were %v, want %v", stages, want)
		}
		for i := range want {
			if stages[i] != want[i] {
				t.Fatalf("the stages were %v, want %v", stages, want)
			}
		}
	})
}

func TestInvalidRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		for field, change := range map[string]func(*shared.GenerateRequest){
			"prompt":     func(q *shared.GenerateRequest) { q.Prompt = "" },
			"max_tokens": func(q *shared.GenerateRequest) { q.MaxTokens = -1 },
			"deadline":   func(q *shared.GenerateRequest) { q.Deadline = -1 },
			"on_miss":    func(q *shared.GenerateRequest) { q.OnMiss = "perhaps" },
		} {
			_, _, err := r.ask(t.Context(), "a", change)
			if e := errorOf(t, err, shared.KindInvalid); e.Field != field {
				t.Errorf("the error names field %q, want %q", e.Field, field)
			}
		}
		_, _, err := r.ask(t.Context(), "a", func(q *shared.GenerateRequest) { q.PromptTokens = []int32{1} })
		wantKind(t, err, shared.KindInvalid)
		for field, spoil := range map[string]func(*shared.GenerateRequest){
			"grammar":      func(q *shared.GenerateRequest) { q.Grammar = "root ::= (" },
			"top_logprobs": func(q *shared.GenerateRequest) { q.TopLogprobs = shared.MaxTopLogprobs + 1 },
		} {
			_, _, err = r.ask(t.Context(), "a", spoil)
			if e := shared.AsError(err, "", ""); e == nil || e.Kind != shared.KindInvalid || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		_, _, err = r.ask(t.Context(), "a", func(q *shared.GenerateRequest) { q.Identity.Precision = "Q8_0" })
		wantKind(t, err, shared.KindIdentity)
	})
}

func TestTokenizeAndTemplate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		tokens, err := r.Tokenize(t.Context(), shared.TokenizeRequest{Requirement: shared.Requirement{SlotID: "b"}, Text: "four"})
		if err != nil || len(tokens) != 1 || tokens[0] != 4 {
			t.Errorf("tokens %v, error %v", tokens, err)
		}
		prompt, err := r.ApplyTemplate(t.Context(), shared.ApplyTemplateRequest{
			Requirement: shared.Requirement{Model: "story", Precision: "F16"}, Messages: []shared.Message{{Content: "hi"}},
		})
		if err != nil || prompt != "hi" {
			t.Errorf("prompt %q, error %v", prompt, err)
		}
		_, err = r.Tokenize(t.Context(), shared.TokenizeRequest{Requirement: shared.Requirement{SlotID: "x"}})
		wantKind(t, err, shared.KindNotFound)
		text, err := r.Detokenize(t.Context(), shared.DetokenizeRequest{Requirement: shared.Requirement{SlotID: "b"}, Tokens: []int32{4, 2}})
		if err != nil || text != "[4 2]" {
			t.Errorf("text %q, error %v", text, err)
		}
	})
}

func TestEmbed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), nil)
		defer r.end()
		two := []shared.EmbedInput{{Text: "x"}, {Tokens: []int32{1}}}
		res, err := r.Embed(t.Context(), shared.EmbedRequest{Requirement: shared.Requirement{SlotID: "b"}, Inputs: two})
		if err != nil || len(res.Vectors) != 2 || res.SlotID != "b" || res.Model == "" || res.PromptTokens != 5 {
			t.Errorf("%+v, %v", res, err)
		}
		_, err = r.Embed(t.Context(), shared.EmbedRequest{Requirement: shared.Requirement{SlotID: "x"}, Inputs: two})
		wantKind(t, err, shared.KindNotFound)
		for _, bad := range []shared.EmbedRequest{
			{}, {Inputs: []shared.EmbedInput{{}}}, {Inputs: []shared.EmbedInput{{Text: "x", Tokens: []int32{1}}}},
			{Inputs: two, OnMiss: "never"}, {Inputs: two, Deadline: -1}, {Inputs: make([]shared.EmbedInput, shared.MaxEmbedInputs+1)},
		} {
			bad.Requirement.SlotID = "b"
			_, err := r.Embed(t.Context(), bad)
			wantKind(t, err, shared.KindInvalid)
		}
	})
}
