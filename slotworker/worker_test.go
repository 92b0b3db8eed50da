package slotworker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

const testModel = "../testdata/models/storyteller-q8_0.gguf"

// slot is a worker on the fake engine, with the header of a real model file.
type slot struct {
	*Worker
	t        testing.TB
	engine   *fakeEngine
	spec     shared.SlotSpec
	expected shared.Identity
}

// newSlot copies the model, so that a test may change the file.
func newSlot(t testing.TB) *slot {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	b, err := os.ReadFile(testModel)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &slot{t: t, spec: shared.SlotSpec{
		SlotID: "story", Model: "storyteller", ModelPath: path, Device: "cpu", Transfer: shared.TransferMmap,
		ContextTokens: 256, Parallel: 1, PageTokens: 64, KVType: "f16", PrefillChunk: 64, Threads: 1,
	}}
	var header *gguf.File
	header, s.expected = identityOf(t, s.spec)
	g := header.Geometry()
	s.engine = &fakeEngine{info: ModelInfo{
		Architecture: g.Architecture, Layers: g.Layers, Embedding: g.Embedding, Heads: g.Heads, HeadsKV: g.HeadsKV,
		TrainedTokens: header.TrainedTokens(), Vocab: g.Vocab, WeightBytes: header.WeightBytes(),
	}}
	s.Worker, err = New(Config{
		Engine:   func() (Engine, error) { return s.engine, nil },
		StateDir: filepath.Join(dir, "state"),
		Version:  "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// identityOf computes what the supervisor does at declaration.
func identityOf(t testing.TB, spec shared.SlotSpec) (*gguf.File, shared.Identity) {
	t.Helper()
	header, err := gguf.ReadFile(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	file, size, err := gguf.Open(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	digest, err := gguf.Digest(context.Background(), file, size, nil)
	if err != nil {
		t.Fatal(err)
	}
	return header, header.Identity(digest, spec)
}

// end closes the worker and checks that the engine has nothing open.
func (s *slot) end() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Error(err)
	}
	if n := s.engine.model.open.Load(); n != 0 {
		s.t.Errorf("%d models and contexts are still open", n)
	}
}

func (s *slot) prefetch(ctx context.Context) (shared.PrefetchResult, error) {
	return s.Prefetch(ctx, shared.PrefetchRequest{
		Spec:     s.spec,
		Plan:     shared.PrefetchPlan{SlotID: s.spec.SlotID, ModelRevision: s.expected.ModelRevision, HostBufferID: "host-1", TargetDevice: "cpu"},
		Expected: s.expected,
	}, nil)
}

func (s *slot) prepare() shared.ActivateResult {
	s.t.Helper()
	if _, err := s.prefetch(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	res, err := s.Activate(s.t.Context(), shared.ActivateRequest{Expected: s.expected})
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *slot) status() shared.WorkerStatus {
	st, err := s.Status(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func (s *slot) generate(ctx context.Context, prompt string, most int, emit func(shared.Chunk) error) answer {
	var got answer
	got.result, got.err = s.Generate(ctx, shared.GenerateRequest{Identity: s.expected, Prompt: prompt, MaxTokens: most}, func(c shared.Chunk) error {
		got.tokens = append(got.tokens, c.Tokens...)
		got.text += c.Text
		if emit != nil {
			return emit(c)
		}
		return nil
	})
	return got
}

// says is what the fake model answers to a plain prompt.
func (s *slot) says(prompt string, n int) []int32 {
	tokens, _ := s.engine.model.Tokenize(prompt, true, true)
	return s.engine.model.solo(tokens, n)
}

func TestSlotFromEmptyToEmpty(t *testing.T) {
	for _, transfer := range []shared.Transfer{shared.TransferMmap, shared.TransferPageable, shared.TransferAuto} {
		t.Run(string(transfer), func(t *testing.T) {
			s := newSlot(t)
			defer s.end()
			s.spec.Transfer = transfer
			pre, err := s.prefetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if pre.HostBufferID != "host-1" || pre.ModelRevision != s.expected.ModelRevision || pre.Precision != "Q8_0" || pre.HostBytes != 3383040 {
				t.Errorf("prefetch gave %+v", pre)
			}
			if pre.Pinned == (pre.PinNote != "") {
				t.Errorf("pinned %v with the note %q", pre.Pinned, pre.PinNote)
			}
			if st := s.status(); st.Status != shared.SlotEmpty || st.HostBytes != pre.HostBytes {
				t.Errorf("after the prefetch: %+v", st)
			}
			act, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
			if err != nil {
				t.Fatal(err)
			}
			if act.Identity != s.expected || len(act.CanaryTokens) != canaryLength || act.ContextTokens != 256 || act.DeviceBytes == 0 {
				t.Errorf("activate gave %+v", act)
			}
			if st := s.status(); st.Status != shared.SlotResident || st.Identity != s.expected || st.KVTokensTotal != 256 || st.SlotID != "story" {
				t.Errorf("when resident: %+v", st)
			}
			if got := s.generate(t.Context(), "hello", 9, nil); !slices.Equal(got.tokens, s.says("hello", 9)) || got.result.Identity != s.expected {
				t.Errorf("got %+v", got)
			}
			ev, err := s.Evict(t.Context(), false)
			if err != nil || ev.DeviceBytesFreed != act.DeviceBytes || ev.HostBytesFreed != 0 {
				t.Errorf("evict gave %+v, %v", ev, err)
			}
			if st := s.status(); st.Status != shared.SlotEmpty || st.HostBytes == 0 || st.Identity.Complete() {
				t.Errorf("after the eviction: %+v", st)
			}
			// Back from the host buffer, with and without another prefetch order.
			if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Evict(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			s.prepare()
			ev, err = s.Evict(t.Context(), true)
			if err != nil || ev.HostBytesFreed != pre.HostBytes {
				t.Errorf("evict with the host buffer gave %+v, %v", ev, err)
			}
			if st := s.status(); st.HostBytes != 0 {
				t.Errorf("after dropping the host buffer: %+v", st)
			}
			s.prepare()
			if got := s.generate(t.Context(), "again", 5, nil); !slices.Equal(got.tokens, s.says("again", 5)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestIllegalOrders(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	kind := func(name string, err error, want shared.Kind) {
		t.Helper()
		var typed *shared.Error
		if !errors.As(err, &typed) || typed.Kind != want {
			t.Errorf("%s: got %v of kind %v, want %v", name, err, shared.KindOf(err), want)
		}
	}
	_, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
	kind("activate an empty slot", err, shared.KindProtocol)
	kind("generate on an empty slot", s.generate(t.Context(), "x", 1, nil).err, shared.KindNotResident)
	_, err = s.Tokenize(t.Context(), shared.TokenizeRequest{Identity: s.expected, Text: "x"})
	kind("tokenize on an empty slot", err, shared.KindNotResident)
	if _, err = s.Evict(t.Context(), true); err != nil {
		t.Errorf("evicting an empty slot: %v", err)
	}
	s.prepare()
	_, err = s.prefetch(t.Context())
	kind("prefetch a resident slot", err, shared.KindProtocol)
	_, err = s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
	kind("activate a resident slot", err, shared.KindProtocol)
	_, err = s.Prefetch(t.Context(), shared.PrefetchRequest{Spec: s.spec, Plan: shared.PrefetchPlan{SlotID: "other"}}, nil)
	kind("a plan for another slot", err, shared.KindProtocol)
	s.spec.Transfer = shared.TransferPinned
	_, err = s.prefetch(t.Context())
	kind("pinned", err, shared.KindUnsupported)
	s.spec.Transfer, s.spec.Device = shared.TransferMmap, "cuda:0"
	_, err = s.prefetch(t.Context())
	kind("another device", err, shared.KindUnsupported)
}

func TestRequestsAreChecked(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.prepare()
	tests := []struct {
		name string
		edit func(*shared.GenerateRequest)
		want shared.Kind
	}{
		{"no prompt", func(r *shared.GenerateRequest) { r.Prompt = "" }, shared.KindInvalid},
		{"two prompts", func(r *shared.GenerateRequest) { r.PromptTokens = []int32{1} }, shared.KindInvalid},
		{"token outside the vocabulary", func(r *shared.GenerateRequest) { r.Prompt, r.PromptTokens = "", []int32{1 << 20} }, shared.KindInvalid},
		{"negative token", func(r *shared.GenerateRequest) { r.Prompt, r.PromptTokens = "", []int32{-1} }, shared.KindInvalid},
		{"empty stop string", func(r *shared.GenerateRequest) { r.Stop = []string{""} }, shared.KindInvalid},
		{"negative max tokens", func(r *shared.GenerateRequest) { r.MaxTokens = -1 }, shared.KindInvalid},
		{"negative deadline", func(r *shared.GenerateRequest) { r.Deadline = -1 }, shared.KindInvalid},
		{"sampler", func(r *shared.GenerateRequest) { r.Sampling.TopK = -1 }, shared.KindInvalid},
		{"too long", func(r *shared.GenerateRequest) { r.Prompt = strings.Repeat("x", 255) }, shared.KindContextTooLong},
		{"no identity", func(r *shared.GenerateRequest) { r.Identity = shared.Identity{} }, shared.KindIdentity},
		{"an empty field", func(r *shared.GenerateRequest) { r.Identity.SlotRevision = "" }, shared.KindIdentity},
		{"another precision", func(r *shared.GenerateRequest) { r.Identity.Precision = "F16" }, shared.KindIdentity},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := shared.GenerateRequest{Identity: s.expected, Prompt: "hello", MaxTokens: 2}
			tt.edit(&req)
			_, err := s.Generate(t.Context(), req, func(shared.Chunk) error { return nil })
			if shared.KindOf(err) != tt.want {
				t.Errorf("got %v of kind %v, want %v", err, shared.KindOf(err), tt.want)
			}
		})
	}
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Errorf("a refused request still holds the slot: %v", err)
	}
}

func TestWrongIdentityIsNeverResident(t *testing.T) {
	tests := []struct {
		name string
		edit func(*slot)
	}{
		{"another digest", func(s *slot) { s.expected.ModelRevision = "sha256:00" }},
		{"an empty field", func(s *slot) { s.expected.LayoutRevision = "" }},
		{"a declared digest that is not the file's", func(s *slot) { s.spec.DeclaredSHA256 = strings.Repeat("0", 64) }},
		{"a declared precision that is not the file's", func(s *slot) { s.spec.DeclaredPrecision = "F16" }},
		{"another page size", func(s *slot) { s.spec.PageTokens = 128 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlot(t)
			defer s.end()
			tt.edit(s)
			_, err := s.prefetch(t.Context())
			if shared.KindOf(err) != shared.KindIdentity {
				t.Errorf("got %v of kind %v", err, shared.KindOf(err))
			}
			if st := s.status(); st.Status != shared.SlotEmpty || st.HostBytes != 0 {
				t.Errorf("left over: %+v", st)
			}
		})
	}
	t.Run("the error shows both", func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		proved := s.expected.ModelRevision
		s.expected.ModelRevision = "sha256:f00d"
		_, err := s.prefetch(t.Context())
		if !strings.Contains(err.Error(), proved) || !strings.Contains(err.Error(), "sha256:f00d") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("at activation", func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		if _, err := s.prefetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		wrong := s.expected
		wrong.TokenizerRevision = ""
		if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: wrong}); shared.KindOf(err) != shared.KindIdentity {
			t.Errorf("got %v", err)
		}
		if st := s.status(); st.Status != shared.SlotEmpty {
			t.Errorf("the slot is %s", st.Status)
		}
	})
	t.Run("the engine built another model", func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.engine.info.HeadsKV++
		if _, err := s.prefetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected}); shared.KindOf(err) != shared.KindIdentity {
			t.Errorf("got %v", err)
		}
	})
}

func TestCanaryIsKeptAndCompared(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	first := s.prepare()
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.cfg.StateDir, "canary", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("canary files: %v, %v", files, err)
	}
	var kept canaryReference
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &kept); err != nil || !slices.Equal(kept.Tokens, first.CanaryTokens) || kept.Identity != s.expected {
		t.Errorf("kept %s, %v", b, err)
	}
	// The other strategy has the same reference.
	s.spec.Transfer = shared.TransferPageable
	s.prepare()
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	refused := func(name string, kind shared.Kind) {
		t.Helper()
		_, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
		if shared.KindOf(err) != kind {
			t.Errorf("%s: got %v", name, err)
		}
		if st := s.status(); st.Status != shared.SlotEmpty {
			t.Errorf("%s: the slot is %s", name, st.Status)
		}
		if n := s.engine.model.open.Load(); n != 0 {
			t.Errorf("%s: %d models and contexts are still open", name, n)
		}
	}
	s.engine.model.answer = func([]int32) int32 { return 'Q' }
	refused("other tokens", shared.KindIdentity)
	s.engine.model.answer = nil
	passed := maps.Clone(s.passed)
	for path := range s.passed {
		s.passed[path] += 2 * canaryNear
	}
	refused("the same token for other reasons", shared.KindIdentity)
	for path := range s.passed {
		s.passed[path] = float32(math.NaN())
	}
	refused("no number", shared.KindIdentity)
	s.Worker.passed = passed
	kept.Tokens[0]++
	if err := writeCanary(files[0], kept); err != nil {
		t.Fatal(err)
	}
	refused("a reference with another token", shared.KindIdentity)
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a damaged reference", shared.KindEngine)
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	s.prepare()
}

// A mapped model without memory of its own stays with the host buffer, and goes with it.
func TestEvictionKeepsAMappedModel(t *testing.T) {
	for _, tt := range []struct {
		transfer shared.Transfer
		own      int64
		loads    int
	}{{shared.TransferMmap, 0, 1}, {shared.TransferMmap, 1, 2}, {shared.TransferPageable, 0, 2}} {
		s := newSlot(t)
		s.spec.Transfer = tt.transfer
		s.engine.info.OwnBytes = tt.own
		loads := 0
		s.engine.loadHook = func(LoadRequest) error { loads++; return nil }
		want := s.prepare().CanaryTokens
		if _, err := s.Evict(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		again, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
		if err != nil || loads != tt.loads || !slices.Equal(again.CanaryTokens, want[:1]) {
			t.Errorf("%+v: loaded %d times, canary %v of %v, %v", tt, loads, again.CanaryTokens, want, err)
		}
		if _, err := s.Evict(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if n := s.engine.model.open.Load(); n != 0 {
			t.Errorf("%+v: %d models and contexts are open without a host buffer", tt, n)
		}
		s.end()
	}
}

func TestAnswersAtOnceWhileLoading(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	entered, leave := make(chan struct{}), make(chan struct{})
	s.engine.loadHook = func(LoadRequest) error { close(entered); <-leave; return nil }
	if _, err := s.prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
		done <- err
	}()
	wait(t, entered)
	if st := s.status(); st.Status != shared.SlotPrefetching || st.SlotID != "story" {
		t.Errorf("while loading: %+v", st)
	}
	if info, err := s.Describe(t.Context()); err != nil || info.Engine != shared.EngineVersion || info.CPUVariant != "fake" || info.PID != os.Getpid() {
		t.Errorf("describe: %+v, %v", info, err)
	}
	before, _ := s.Heartbeat(t.Context())
	for name, order := range map[string]func() error{
		"prefetch": func() error { _, err := s.prefetch(t.Context()); return err },
		"evict":    func() error { _, err := s.Evict(t.Context(), false); return err },
	} {
		if err := order(); shared.KindOf(err) != shared.KindBusy {
			t.Errorf("%s while loading: %v", name, err)
		}
	}
	close(leave)
	if err := wait(t, done); err != nil {
		t.Fatal(err)
	}
	if after, _ := s.Heartbeat(t.Context()); after.Progress <= before.Progress {
		t.Errorf("progress went from %d to %d", before.Progress, after.Progress)
	}
}

func TestCancelledPreparationLeavesNothing(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	ctx, cancel := context.WithCancel(t.Context())
	s.engine.loadHook = func(LoadRequest) error { cancel(); return nil }
	if _, err := s.prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Activate(ctx, shared.ActivateRequest{Expected: s.expected}); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
	if st := s.status(); st.Status != shared.SlotEmpty || st.HostBytes == 0 {
		t.Errorf("after the cancel: %+v", st)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := s.Evict(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.prefetch(ctx); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
	s.engine.loadHook = nil
	s.prepare()
}

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

// TestPhases gives each phase a delay of its own and expects it there, exactly,
// and nowhere else.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		m := &s.engine.model
		m.tokenizeHook = func(string) { time.Sleep(3 * time.Millisecond) }
		m.tokensHook = func() { time.Sleep(5 * time.Millisecond) }
		m.decodeHook = func([]Row) error { time.Sleep(7 * time.Millisecond); return nil }
		m.sampleHook = func([]int32) { time.Sleep(11 * time.Millisecond) }
		start := time.Now()
		var first shared.Phases
		var seen time.Duration
		got := s.generate(t.Context(), "hello", 4, func(c shared.Chunk) error {
			if c.Phases != nil {
				first, seen = *c.Phases, time.Since(start)
			}
			return nil
		})
		if got.err != nil {
			t.Fatal(got.err)
		}
		want := shared.Phases{
			SlotActivation: 5 * time.Millisecond, ContextLookup: 3 * time.Millisecond,
			Prefill: 7 * time.Millisecond, DecodeFirstToken: 11 * time.Millisecond,
		}
		if first != want || got.result.Phases != want {
			t.Errorf("got %+v and %+v, want %+v", first, got.result.Phases, want)
		}
		if seen != want.Sum() {
			t.Errorf("the first chunk came after %s, the phases say %s", seen, want.Sum())
		}
		if got.result.Prompt != 7*time.Millisecond || got.result.Predicted != 11*time.Millisecond+3*18*time.Millisecond {
			t.Errorf("prompt %s, predicted %s", got.result.Prompt, got.result.Predicted)
		}

		// A request that waits for the sequence waits in the queue.
		ended := make(chan answer, 1)
		go func() { ended <- s.generate(t.Context(), "hello", 4, nil) }()
		time.Sleep(4 * time.Millisecond)
		second := s.generate(t.Context(), "hello", 4, nil)
		// Both go on in the sequence that held the prompt, whose tokens are counted
		// before and after it is cut. The first one takes 3+5+5+4×(7+11)+5 = 90 ms, the
		// second has tokenized after 7.
		want.Queue, want.SlotActivation = 83*time.Millisecond, 10*time.Millisecond
		if second.result.Phases != want {
			t.Errorf("got %+v, want %+v", second.result.Phases, want)
		}
		<-ended
	})
}

// TestFirstVisibleText: the phase lasts until there is something to see.
func TestFirstVisibleText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		m := &s.engine.model
		fox := []byte("🦊")
		m.piece = func(token int32) []byte { return []byte{byte(token)} }
		prompt := len("hello") + 1
		m.answer = func(tokens []int32) int32 { return int32(fox[(len(tokens)-prompt)%len(fox)]) }
		m.decodeHook = func([]Row) error { time.Sleep(7 * time.Millisecond); return nil }
		var phases []shared.Phases
		got := s.generate(t.Context(), "hello", 8, func(c shared.Chunk) error {
			if c.Phases != nil {
				phases = append(phases, *c.Phases)
			}
			return nil
		})
		if got.text != "🦊🦊" || len(phases) != 1 || phases[0].DecodeFirstToken != 3*7*time.Millisecond {
			t.Errorf("got %q, phases %+v, %v", got.text, phases, got.err)
		}
	})
}
