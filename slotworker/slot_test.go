package slotworker

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

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
	return newSlotOn(t, nil)
}

// newSlotOn is a slot on a device; nil is the CPU.
func newSlotOn(t testing.TB, device *fakeDevice) *slot {
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
	if device != nil {
		s.spec.Device, s.spec.DeviceKind = "cuda:0", device.Info().Kind()
	}
	var header *gguf.File
	header, s.expected = identityOf(t, s.spec)
	g := header.Geometry()
	s.engine = &fakeEngine{info: ModelInfo{
		Architecture: g.Architecture, Layers: g.Layers, Embedding: g.Embedding, Heads: g.Heads, HeadsKV: g.HeadsKV,
		TrainedTokens: header.TrainedTokens(), Vocab: g.Vocab, WeightBytes: header.WeightBytes(),
	}}
	cfg := Config{
		Engine:   func() (Engine, error) { return s.engine, nil },
		StateDir: filepath.Join(dir, "state"),
		Version:  "test",
	}
	if device != nil {
		cfg.Device = func(string) (Device, error) { device.opens.Add(1); return device, nil }
		cfg.Lost = func(err error) { device.told <- err }
	}
	s.Worker, err = New(cfg)
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
