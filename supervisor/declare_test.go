package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

func TestRequestsWaitForTheDigest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) { r.files.hashing = 10 * time.Second })
		defer r.end()
		_, _, err := r.ask(t.Context(), "a", onMiss(shared.OnMissFail))
		wantKind(t, err, shared.KindNotResident)
		_, _, err = r.ask(t.Context(), "a", onMiss(shared.OnMissPending))
		if e := errorOf(t, err, shared.KindPending); e.RetryAfter <= 0 {
			t.Errorf("no retry-after: %+v", e)
		}
		_, _, err = r.ask(t.Context(), "a", deadline(time.Second))
		wantKind(t, err, shared.KindDeadline)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Resolve(ctx, shared.Requirement{SlotID: "a"})
		wantKind(t, err, shared.KindDeadline)
		start := time.Now()
		r.mustAsk("a")
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("the request was served after %s", took)
		}
		res, err := r.Resolve(t.Context(), shared.Requirement{Model: "story", Precision: "F16"})
		if err != nil || len(res.SlotIDs) != 1 || res.SlotIDs[0] != "b" || res.Model != "story" {
			t.Errorf("resolve: %+v, %v", res, err)
		}
	})
}

func TestPreloadStartsWhenTheIdentityIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := twoSlots()
		cfg.Slots[0].Preload = true
		r := newRig(t, cfg, func(r *rig) { r.files.hashing = time.Second })
		defer r.end()
		synctest.Wait()
		if info := r.slot("a"); info.Progress.Stage != "digest" || r.launcher.launched("a") != 0 {
			t.Errorf("while the file is hashed: %+v", info)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if a, b := r.slot("a"), r.slot("b"); a.Status != shared.SlotResident || b.Status != shared.SlotEmpty || b.Process != shared.ProcessStopped {
			t.Errorf("a: %+v\nb: %+v", a, b)
		}
		if a := r.slot("a"); a.Progress != (shared.Progress{}) || a.Identity.Precision != "Q8_0" {
			t.Errorf("a: %+v", a)
		}
	})
}

func TestWrongDeclarationKeepsTheSlotEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Config{Slots: []shared.SlotSpec{rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "F16"), rigSlot("c", "tale", "Q8_0")}}
		cfg.Slots[0].DeclaredSHA256 = strings.Repeat("0", 64)
		cfg.Slots[0].Preload = true
		cfg.Slots[2].DeclaredPrecision = "F16"
		r := newRig(t, cfg, nil)
		defer r.end()
		synctest.Wait()
		a := r.slot("a")
		if a.Status != shared.SlotEmpty || a.Process != shared.ProcessStopped || !strings.Contains(a.LastError, cfg.Slots[0].DeclaredSHA256) {
			t.Errorf("the slot is %+v", a)
		}
		if digest := r.files.model(a.ModelPath).digest; !strings.Contains(a.LastError, digest) {
			t.Errorf("%q does not show the digest %s", a.LastError, digest)
		}
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindIdentity); e.SlotID != "a" {
			t.Errorf("the error names slot %q", e.SlotID)
		}
		_, err = r.Prepare(t.Context(), "a", nil)
		wantKind(t, err, shared.KindIdentity)
		_, _, err = r.ask(t.Context(), "c")
		if e := errorOf(t, err, shared.KindIdentity); e.Field != "precision" {
			t.Errorf("the error names field %q", e.Field)
		}
		if n := r.files.hashed[r.slot("c").ModelPath]; n != 0 {
			t.Error("a file whose header is wrong already was hashed")
		}
		if r.launcher.launched("a")+r.launcher.launched("c") != 0 {
			t.Error("a worker was started for a slot that cannot be")
		}
		r.mustAsk("b")
	})
}

func TestRepairedFileIsPreparedByHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := twoSlots()
		r := newRig(t, cfg, func(r *rig) {
			for path, m := range r.files.models {
				if strings.HasSuffix(path, "Q8_0") {
					m.err = shared.Errorf(shared.KindModelFile, "cut short")
					r.files.models[path] = m
				}
			}
		})
		defer r.end()
		_, _, err := r.ask(t.Context(), "a")
		wantKind(t, err, shared.KindModelFile)
		path := r.slot("a").ModelPath
		m := r.files.model(path)
		m.err = nil
		r.files.set(path, m)
		if info, err := r.Prepare(t.Context(), "a", nil); err != nil || info.Status != shared.SlotResident || info.LastError != "" {
			t.Errorf("prepare: %v, %+v", err, info)
		}
		synctest.Wait()
		r.mustAsk("a")
	})
}

func TestDigestsAreSharedAndKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := Config{StateDir: dir, Slots: []shared.SlotSpec{rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "Q8_0")}}
		r := newRig(t, cfg, nil)
		r.mustAsk("a")
		path := r.slot("a").ModelPath
		r.end()
		if n := r.files.hashed[path]; n != 1 {
			t.Errorf("a file that two slots share was hashed %d times", n)
		}

		again := func(what string, want int) {
			t.Helper()
			files := &fakeFiles{models: r.files.models, hashed: map[string]int{}}
			cfg := cfg
			cfg.Launcher = newFakeLauncher()
			s, err := newSupervisor(cfg, files)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Resolve(t.Context(), shared.Requirement{SlotID: "a"}); err != nil {
				t.Error(err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if n := files.hashed[path]; n != want {
				t.Errorf("%s: hashed %d times, want %d", what, n, want)
			}
		}
		again("from the cache", 0)
		if err := os.WriteFile(filepath.Join(dir, "digests.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		again("the cache is damaged", 1)
		if err := os.WriteFile(path, []byte("longer than it was"), 0o600); err != nil {
			t.Fatal(err)
		}
		again("the file was changed", 1)
		again("from the cache again", 0)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("longer than it was"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		again("the file was replaced", 1)
	})
}

func TestFileThatChangesWhileItIsHashedIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := twoSlots()
		cfg.StateDir = t.TempDir()
		r := newRig(t, cfg, func(r *rig) {
			r.files.during = func(path string) {
				if err := os.WriteFile(path, []byte("something else altogether"), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindModelFile); !strings.Contains(e.Text(), "changed while it was read") {
			t.Errorf("the error is %v", e)
		}
		path := r.slot("a").ModelPath
		r.end()
		key, err := fileKeyOf(path)
		if err != nil {
			t.Fatal(err)
		}
		if rev, ok := openDigestCache(cfg.StateDir).lookup(key); ok {
			t.Errorf("the digest %s of neither state was kept", rev)
		}
	})
}

func TestCloseEndsHashing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, twoSlots(), func(r *rig) { r.files.hashing = time.Hour })
		synctest.Wait()
		start := time.Now()
		r.end()
		if time.Since(start) != 0 {
			t.Errorf("close took %s", time.Since(start))
		}
		if info := r.slot("a"); info.LastError != "" {
			t.Errorf("being cut short counts as a finding: %+v", info)
		}
	})
}

// A file that takes long must not keep the header of another from being read.
func TestLongHashDelaysNoOtherFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		r := newRig(t, Config{StateDir: dir, Slots: []shared.SlotSpec{rigSlot("b", "story", "F16")}}, nil)
		path := r.slot("b").ModelPath
		r.mustAsk("b")
		r.end()
		// b is known from the cache now; many others are being hashed.
		cfg := Config{StateDir: dir, HashParallel: 1}
		for _, id := range []string{"u", "v", "w", "x"} {
			cfg.Slots = append(cfg.Slots, rigSlot(id, id, "Q8_0"))
		}
		r = newRig(t, cfg, func(n *rig) {
			n.files.hashing = time.Minute
			n.files.models[path] = r.files.model(path)
		})
		defer r.end()
		start := time.Now()
		done := make(chan struct{})
		r.declarer.running.Go(func() {
			defer close(done)
			if _, err := r.declarer.header(path); err != nil {
				t.Error(err)
			}
			if revision, err := r.declarer.revision([]string{path}, nil); err != nil || revision == "" {
				t.Errorf("revision %q, error %v", revision, err)
			}
		})
		<-done
		if took := time.Since(start); took != 0 {
			t.Errorf("a known file waited %s for the others", took)
		}
	})
}
