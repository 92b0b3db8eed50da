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
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

const testModel = "../testdata/models/storyteller-q8_0.gguf"

func TestSlotFromEmptyToEmpty(t *testing.T) {
	for _, transfer := range []shared.Transfer{shared.TransferMmap, shared.TransferPageable, shared.TransferPinned, shared.TransferAuto} {
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
	s.spec.Transfer = "fast"
	_, err = s.prefetch(t.Context())
	kind("an unknown transfer", err, shared.KindInvalid)
	if _, err = s.Evict(t.Context(), true); err != nil {
		t.Error(err)
	}
	s.spec.Transfer, s.spec.Device = shared.TransferMmap, "cuda:0"
	_, err = s.prefetch(t.Context())
	kind("a device that this program cannot use", err, shared.KindUnsupported)
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

// Nobody is at the other end of the pipe: to wait for it would never end.
func TestCanaryThatIsNoFile(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.prepare()
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.cfg.StateDir, "canary", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("canary files: %v, %v", files, err)
	}
	if err := errors.Join(os.Remove(files[0]), unix.Mkfifo(files[0], 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected})
	if shared.KindOf(err) != shared.KindEngine || !errors.Is(err, regular.ErrNot) {
		t.Errorf("got %v", err)
	}
	if st := s.status(); st.Status != shared.SlotEmpty {
		t.Errorf("the slot is %s", st.Status)
	}
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
	s.passed = passed
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
