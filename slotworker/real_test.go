package slotworker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// prompts are fifty, from a few tokens to several chunks.
func prompts() []string {
	var all []string
	for i, animal := range []string{"fox", "owl", "bear", "cat", "wolf", "mouse", "horse", "frog", "crow", "goat"} {
		for j, form := range []string{
			"Tell me a story about a %s.",
			"Write a story with a %s and a map.",
			"What did the %s say? What is prefill?",
			"Once upon a time a %s lived by the sea, and every morning it went out to look at the boats. ",
			"The %s asked: what is a slot? Explain eviction. ",
		} {
			text := fmt.Sprintf(form, animal)
			all = append(all, strings.Repeat(text, 1+(i+j)%6))
		}
	}
	return all
}

// alone runs prompts on the engine without the worker, cut at the same places.
type alone struct {
	t     testing.TB
	model slotworker.Model
	ctx   slotworker.Context
}

func newAlone(t testing.TB, path string) *alone {
	t.Helper()
	model, err := engine(t).Load(slotworker.LoadRequest{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := model.NewContext(slotworker.ContextConfig{
		TokensPerSequence: realTokens, Sequences: 1, BatchTokens: realChunk + 1, Threads: 1, KVType: "f16",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctx.Close(); model.Close() })
	return &alone{t: t, model: model, ctx: ctx}
}

func (a *alone) greedy(prompt []int32, n int) []int32 {
	a.t.Helper()
	sampler, err := a.model.NewSampler(shared.Sampling{}, prompt)
	if err != nil {
		a.t.Fatal(err)
	}
	defer sampler.Close()
	var out []int32
	pos := 0
	for todo := prompt; len(todo) > 0; {
		chunk := todo[:min(realChunk, len(todo))]
		todo = todo[len(chunk):]
		rows := make([]slotworker.Row, len(chunk))
		for i, token := range chunk {
			rows[i] = slotworker.Row{Token: token, Pos: int32(pos + i)}
		}
		rows[len(rows)-1].Logits = len(todo) == 0
		pos += len(chunk)
		if err := a.ctx.Decode(rows); err != nil {
			a.t.Fatal(err)
		}
		if len(todo) == 0 {
			out = append(out, a.ctx.Sample(sampler, len(rows)-1))
		}
	}
	for len(out) < n {
		if err := a.ctx.Decode([]slotworker.Row{{Token: out[len(out)-1], Pos: int32(pos), Logits: true}}); err != nil {
			a.t.Fatal(err)
		}
		pos++
		out = append(out, a.ctx.Sample(sampler, 0))
	}
	if !a.ctx.SeqRemove(0, 0, -1) {
		a.t.Fatal("the sequence cannot be cleared")
	}
	return out
}

// TestGreedyEqualsTheEngineAlone: nothing that the worker does changes a token.
func TestGreedyEqualsTheEngineAlone(t *testing.T) {
	const n = 12
	for _, precision := range []string{"q8_0", "f16", "q4_0"} {
		t.Run(precision, func(t *testing.T) {
			var want [][]int32
			var longest int
			reference := newAlone(t, filepath.Join("..", "testdata", "models", "storyteller-"+precision+".gguf"))
			for _, p := range prompts() {
				tokens, err := reference.model.Tokenize(p, true, true)
				if err != nil {
					t.Fatal(err)
				}
				longest = max(longest, len(tokens))
				want = append(want, reference.greedy(tokens, n))
			}
			if longest <= 2*realChunk || longest+n >= realTokens {
				t.Fatalf("the longest prompt has %d tokens", longest)
			}
			for _, transfer := range []shared.Transfer{shared.TransferMmap, shared.TransferPageable} {
				t.Run(string(transfer), func(t *testing.T) {
					s := newRealSlot(t, precision, transfer)
					s.prepare()
					for i, p := range prompts() {
						got := s.generate(shared.GenerateRequest{Prompt: p, MaxTokens: n, IgnoreEOS: true})
						if !slices.Equal(got.tokens, want[i]) {
							t.Errorf("%q: got %v, want %v", p, got.tokens, want[i])
						}
					}
				})
			}
		})
	}
}

func TestRealSlotGoesAndComesBack(t *testing.T) {
	for _, transfer := range []shared.Transfer{shared.TransferMmap, shared.TransferPageable} {
		t.Run(string(transfer), func(t *testing.T) {
			s := newRealSlot(t, "q8_0", transfer)
			first := s.prepare()
			request := shared.GenerateRequest{Messages: []shared.Message{{Role: "user", Content: "Tell me a story about a fox."}}, MaxTokens: 60}
			want := s.generate(request)
			if !strings.Contains(want.text, "fox") {
				t.Errorf("the answer is %q", want.text)
			}
			for _, back := range []func(){
				func() { s.evict(false); s.prepare() },
				func() {
					s.evict(false)
					if _, err := s.activate(); err != nil {
						t.Fatal(err)
					}
				},
				func() { s.evict(true); s.prepare() },
			} {
				back()
				if got := s.generate(request); !slices.Equal(got.tokens, want.tokens) || got.text != want.text {
					t.Errorf("came back with %q, left with %q", got.text, want.text)
				}
			}
			if first.DeviceBytes == 0 || first.Identity != s.expected {
				t.Errorf("activate gave %+v", first)
			}
		})
	}
}

func TestRealCanaryRefusesAnotherAnswer(t *testing.T) {
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	s.prepare()
	s.evict(false)
	files, err := filepath.Glob(filepath.Join(s.stateDir, "canary", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("canary files: %v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(b), "\"Tokens\": [\n") + len("\"Tokens\": [\n")
	tampered := string(b[:at]) + "    1,\n" + string(b[at:])
	if err := os.WriteFile(files[0], []byte(tampered), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.activate(); shared.KindOf(err) != shared.KindIdentity {
		t.Errorf("got %v", err)
	}
	if st, err := s.Status(t.Context()); err != nil || st.Status != shared.SlotEmpty {
		t.Errorf("the slot is %s, %v", st.Status, err)
	}
}

// TestRealPhasesFitIntoTheWait: they are all measured inside it.
func TestRealPhasesFitIntoTheWait(t *testing.T) {
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	s.prepare()
	for range 20 {
		start := time.Now()
		var waited time.Duration
		var phases shared.Phases
		_, err := s.Generate(t.Context(), shared.GenerateRequest{Identity: s.expected, Messages: []shared.Message{{Role: "user", Content: "What is a slot?"}}, MaxTokens: 4}, func(c shared.Chunk) error {
			if c.Phases != nil {
				waited, phases = time.Since(start), *c.Phases
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum := phases.Sum(); sum <= 0 || sum > waited || phases.Prefill <= 0 || phases.DecodeFirstToken <= 0 {
			t.Errorf("waited %s, the phases say %+v", waited, phases)
		}
	}
}

func TestRealCancelBetweenSteps(t *testing.T) {
	e := &stepped{Engine: engine(t)}
	s := newRealSlotOn(t, e, "q8_0", shared.TransferMmap)
	s.prepare()
	want := s.generate(shared.GenerateRequest{Prompt: "The crow asked: what is a slot?", MaxTokens: 20})
	for cancelAt := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		// Not when a chunk comes: a caller that lags gets all of them at the end.
		before := func() {
			if steps++; steps > cancelAt+1 {
				cancel()
			}
		}
		e.before.Store(&before)
		_, err := s.Generate(ctx, shared.GenerateRequest{Identity: s.expected, Prompt: "Once upon a time", IgnoreEOS: true}, func(shared.Chunk) error { return nil })
		e.before.Store(nil)
		cancel()
		if shared.KindOf(err) != shared.KindCancelled {
			t.Errorf("got %v", err)
		}
		if got := s.generate(shared.GenerateRequest{Prompt: "The crow asked: what is a slot?", MaxTokens: 20}); !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("after a cancel: %q instead of %q", got.text, want.text)
		}
	}
}

func TestRealModelThatIsNone(t *testing.T) {
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	whole, err := os.ReadFile(s.spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"cut in the header":  whole[:1000],
		"cut in the tensors": whole[:len(whole)/2],
		"another magic":      append([]byte("GGML"), whole[4:]...),
	} {
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := s.spec
		spec.ModelPath = path
		_, err := s.Prefetch(t.Context(), shared.PrefetchRequest{Spec: spec, Expected: s.expected, Plan: shared.PrefetchPlan{SlotID: spec.SlotID}}, nil)
		if shared.KindOf(err) != shared.KindModelFile {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s.prepare()
}

// BenchmarkAddedByTheWorker compares the first token through the worker with
// the same steps on the engine alone.
func BenchmarkAddedByTheWorker(b *testing.B) {
	s := newRealSlot(b, "q8_0", shared.TransferMmap)
	s.prepare()
	reference := newAlone(b, s.spec.ModelPath)
	prompt, err := reference.model.Tokenize("Tell me a story about a fox.", true, true)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("worker", func(b *testing.B) {
		var queue, activation, lookup time.Duration
		for b.Loop() {
			got := s.generate(shared.GenerateRequest{PromptTokens: prompt, MaxTokens: 1, IgnoreEOS: true})
			queue += got.result.Phases.Queue
			activation += got.result.Phases.SlotActivation
			lookup += got.result.Phases.ContextLookup
		}
		b.ReportMetric(float64(queue.Microseconds())/float64(b.N), "queue-µs/op")
		b.ReportMetric(float64(activation.Microseconds())/float64(b.N), "activation-µs/op")
		b.ReportMetric(float64(lookup.Microseconds())/float64(b.N), "lookup-µs/op")
	})
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			reference.greedy(prompt, 1)
		}
	})
}
