package slotworker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// split makes a slot's model one of several files.
func (s *realSlot) split(parts int, headerOnly bool) []string {
	s.t.Helper()
	whole, err := os.ReadFile(s.spec.ModelPath)
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := ggufwrite.FromBytes(whole)
	if err != nil {
		s.t.Fatal(err)
	}
	base := filepath.Join(s.t.TempDir(), "story")
	var paths []string
	for i, p := range f.Split(parts, headerOnly) {
		b, err := p.Encode()
		if err != nil {
			s.t.Fatal(err)
		}
		paths = append(paths, ggufwrite.PartName(base, i, parts))
		if err := os.WriteFile(paths[i], b, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.spec.ModelPath = paths[0]
	s.expected = declared(s.t, s.spec)
	return paths
}

func (s *realSlot) text() string {
	s.t.Helper()
	var text strings.Builder
	if _, err := s.Generate(s.t.Context(), shared.GenerateRequest{
		RequestID: "r", Identity: s.expected, MaxTokens: 24, Prompt: "Once upon a time there was a fox",
	}, func(c shared.Chunk) error { text.WriteString(c.Text); return nil }); err != nil {
		s.t.Fatal(err)
	}
	return text.String()
}

// A model in parts answers as the whole one does, and is kept and watched as one.
func TestSplitModel(t *testing.T) {
	whole := newRealSlot(t, "q4_0", shared.TransferMmap)
	whole.prepare()
	want := whole.text()
	for _, headerOnly := range []bool{false, true} {
		s := newRealSlot(t, "q4_0", shared.TransferMmap)
		paths := s.split(3, headerOnly)
		s.prepare()
		if got := s.text(); got != want || got == "" {
			t.Errorf("the parts answer %q, the whole %q", got, want)
		}
		if _, err := s.Evict(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.prepare() // out of the host buffer
		if got := s.text(); got != want {
			t.Errorf("back again, %q instead of %q", got, want)
		}
		if _, err := s.Evict(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.prefetch()
		last, err := os.OpenFile(paths[2], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := last.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if err := last.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.activate(); shared.KindOf(err) != shared.KindModelFile || !strings.Contains(err.Error(), paths[2]) {
			t.Errorf("a changed part: %v", err)
		}
	}
}

func TestSplitModelIsNotPageable(t *testing.T) {
	s := newRealSlot(t, "q4_0", shared.TransferPageable)
	paths := s.split(2, false)
	order := shared.PrefetchRequest{Spec: s.spec, Expected: s.expected, Plan: shared.PrefetchPlan{SlotID: s.spec.SlotID, HostBufferID: "h"}}
	if _, err := s.Prefetch(t.Context(), order, nil); shared.KindOf(err) != shared.KindUnsupported || !strings.Contains(err.Error(), "use mmap") {
		t.Errorf("pageable: %v", err)
	}
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	order.Spec.Transfer = shared.TransferMmap
	if _, err := s.Prefetch(t.Context(), order, nil); shared.KindOf(err) != shared.KindModelFile || !strings.Contains(err.Error(), "part 2 of 2 of the model cannot be opened, "+paths[1]) {
		t.Errorf("a missing part: %v", err)
	}
}
