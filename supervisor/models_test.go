package supervisor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// The real models: the supervisor finds the identity that anybody who reads the
// file finds, and tells the precisions of one model apart.
func TestIdentityOfRealModels(t *testing.T) {
	spec := func(id, file string) shared.SlotSpec {
		return shared.SlotSpec{SlotID: id, Model: "storyteller", ModelPath: filepath.Join("../testdata/models", file), Device: "cpu", KVType: "f16", PageTokens: 64}
	}
	cfg := Config{
		Launcher: newFakeLauncher(),
		StateDir: t.TempDir(),
		Slots:    []shared.SlotSpec{spec("a", "storyteller-q8_0.gguf"), spec("b", "storyteller-f16.gguf"), spec("gone", "none.gguf"), spec("lie", "storyteller-q4_0.gguf")},
	}
	cfg.Slots[3].DeclaredSHA256 = strings.Repeat("0", 64)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	res, err := s.Resolve(t.Context(), shared.Requirement{Model: "storyteller", Precision: "F16"})
	if err != nil || res.SlotIDs[0] != "b" {
		t.Fatalf("resolve: %+v, %v", res, err)
	}
	header, err := gguf.ReadFile(cfg.Slots[1].ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	if want := header.Identity(res.Identity.ModelRevision, cfg.Slots[1]); res.Identity != want || !want.Complete() {
		t.Errorf("the identity is %v, the file says %v", res.Identity, want)
	}
	_, err = s.Resolve(t.Context(), shared.Requirement{SlotID: "gone"})
	wantKind(t, err, shared.KindModelFile)
	_, err = s.Resolve(t.Context(), shared.Requirement{SlotID: "lie"})
	e := errorOf(t, err, shared.KindIdentity)
	cached := openDigestCache(cfg.StateDir)
	key, err := fileKeyOf(cfg.Slots[3].ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	revision, ok := cached.lookup(key)
	if !ok || !strings.Contains(e.Text(), strings.TrimPrefix(revision, "sha256:")) || !strings.Contains(e.Text(), cfg.Slots[3].DeclaredSHA256) {
		t.Errorf("%q does not show both digests; cached %q", e.Text(), revision)
	}
	_, err = s.Resolve(t.Context(), shared.Requirement{Model: "storyteller", Precision: "Q4_K_M"})
	if e = errorOf(t, err, shared.KindNotFound); e.Field != "precision" || e.Candidates[0].SlotID != "a" || !strings.Contains(e.Text(), "slot gone is in error") {
		t.Errorf("the error is %+v", e)
	}
	_, err = s.Resolve(t.Context(), shared.Requirement{Model: "storyteller"})
	if e = errorOf(t, err, shared.KindAmbiguous); e.Field != "precision" || len(e.Candidates) != 2 {
		t.Errorf("the error is %+v", e)
	}
	// A refused slot does not start a worker, whatever is asked of it.
	_, err = s.Prepare(t.Context(), "lie", nil)
	wantKind(t, err, shared.KindIdentity)
}

func TestStagesNeverExceedTheirCall(t *testing.T) {
	var s stages
	start := time.Unix(0, 0)
	end := start.Add(10 * time.Second)
	s.activated(start, end, shared.ActivateResult{Transfer: 20 * time.Second, Warmup: 3 * time.Second, Canary: 2 * time.Second})
	got := s.during(start, end)
	if want := (shared.ActivationDetail{Transfer: 5 * time.Second, Warmup: 3 * time.Second, Canary: 2 * time.Second}); got != want {
		t.Errorf("parts %+v, want %+v", got, want)
	}
	if got := s.during(end, end.Add(time.Hour)); got != (shared.ActivationDetail{}) {
		t.Errorf("parts of a preparation that was over: %+v", got)
	}
	if s.retryAfter() != 10*time.Second || (&stages{}).retryAfter() != time.Second {
		t.Errorf("retry after %s and %s", s.retryAfter(), (&stages{}).retryAfter())
	}
}
