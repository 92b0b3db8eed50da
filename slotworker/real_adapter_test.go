package slotworker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
	"github.com/firstframe/firstframe/slotworker"
)

// adapt gives a slot a random adapter, and the identity that goes with it.
func (s *realSlot) adapt(seed uint64) {
	s.t.Helper()
	header, err := gguf.ReadFile(s.spec.ModelPath)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := ggufwrite.Adapter{Base: header, Alpha: 2000, Seed: seed}.Build()
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := f.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.spec.Adapters = []shared.AdapterSpec{{Path: path, Scale: 1}}
	s.expected = declared(s.t, s.spec)
}

// realSlotIn is a slot whose worker has the given folder. Its caller closes it.
func realSlotIn(t *testing.T, dir string, adapter uint64) *realSlot {
	t.Helper()
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	e := engine(t)
	w, err := slotworker.New(slotworker.Config{Engine: func() (slotworker.Engine, error) { return e, nil }, StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Worker = w
	s.spec.PagesDisk = 64 << 20
	if adapter != 0 {
		s.adapt(adapter)
	}
	s.prepare()
	return s
}

// tell asks for a story, ends the worker, which writes its pages, and gives the result.
func (s *realSlot) tell() shared.Result {
	s.t.Helper()
	res, err := s.Generate(s.t.Context(), shared.GenerateRequest{
		RequestID: "r", Identity: s.expected, MaxTokens: 12,
		Prompt: strings.Repeat("Tell me a story about a fox and an owl. ", 12),
	}, func(shared.Chunk) error { return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		s.t.Fatal(err)
	}
	return res
}

// Slots with other adapters find each other's pages in one folder, on disk, and
// take none of them.
func TestPagesOfAdaptersNeverMeet(t *testing.T) {
	dir := t.TempDir()
	for _, adapter := range []uint64{0, 1, 2} {
		res := realSlotIn(t, dir, adapter).tell()
		if res.Usage.CachedTokens != 0 || adapter != 0 && res.MissReason != "slot_revision" {
			t.Fatalf("adapter %d: %d tokens came from pages, miss %q", adapter, res.Usage.CachedTokens, res.MissReason)
		}
	}
	for _, adapter := range []uint64{0, 1, 2} {
		if res := realSlotIn(t, dir, adapter).tell(); res.Usage.CachedTokens != res.Usage.PromptTokens-1 {
			t.Errorf("adapter %d finds %d of its own %d tokens", adapter, res.Usage.CachedTokens, res.Usage.PromptTokens)
		}
	}
}

// A worker refuses what would be another identity, and what is no adapter.
func TestWorkerRefusesAdapters(t *testing.T) {
	prefetch := func(s *realSlot) error {
		_, err := s.Prefetch(t.Context(), shared.PrefetchRequest{
			Spec: s.spec, Expected: s.expected,
			Plan: shared.PrefetchPlan{SlotID: s.spec.SlotID, HostBufferID: "host-1", TargetDevice: "cpu"},
		}, nil)
		return err
	}
	s := newRealSlot(t, "q8_0", shared.TransferPageable)
	plain := s.expected
	s.adapt(1)
	adapted := s.expected
	s.expected = plain
	if err := prefetch(s); shared.KindOf(err) != shared.KindIdentity || !strings.Contains(err.Error(), "slot_revision") {
		t.Errorf("an adapter nobody asked for: %v", err)
	}
	s.expected = adapted
	s.spec.Adapters[0].DeclaredSHA256 = strings.Repeat("0", 64)
	if err := prefetch(s); shared.KindOf(err) != shared.KindIdentity || !strings.Contains(err.Error(), "adapter.sha256") {
		t.Errorf("another digest: %v", err)
	}
	s.spec.Adapters[0].DeclaredSHA256 = ""
	s.prepare()
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	path := s.spec.Adapters[0].Path
	if err := os.WriteFile(path, []byte("this is no adapter"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := prefetch(s); shared.KindOf(err) != shared.KindModelFile || !strings.Contains(err.Error(), path) {
		t.Errorf("no adapter: %v", err)
	}
	s.spec.Adapters, s.expected = nil, plain
	s.prepare() // the slot is none the worse for it
}
