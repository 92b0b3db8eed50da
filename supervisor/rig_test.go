package supervisor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// rig is a supervisor with fakes around it. It is made inside a bubble.
type rig struct {
	*Supervisor
	t        *testing.T
	launcher *fakeLauncher
	files    *fakeFiles
}

// rigSlot declares a slot of a model with a precision; slots of the same pair
// share a file, and so an identity.
func rigSlot(id, model, precision string) shared.SlotSpec {
	return shared.SlotSpec{SlotID: id, Model: model, ModelPath: model + "-" + precision, Device: "cpu", Transfer: shared.TransferMmap, ContextTokens: 256, Parallel: 1}
}

func newRig(t *testing.T, cfg Config, setUp func(*rig)) *rig {
	t.Helper()
	r := &rig{
		t: t, launcher: newFakeLauncher(),
		files: &fakeFiles{models: map[string]fakeModel{}, hashed: map[string]int{}},
	}
	dir := t.TempDir()
	for i := range cfg.Slots {
		spec := &cfg.Slots[i]
		name := spec.ModelPath
		spec.ModelPath = filepath.Join(dir, name)
		if err := os.WriteFile(spec.ModelPath, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		precision := name[len(spec.Model)+1:]
		r.files.models[spec.ModelPath] = fakeModel{precision: precision, digest: fmt.Sprintf("%x", sha256.Sum256([]byte(name)))}
	}
	cfg.Launcher = r.launcher
	if cfg.WedgeAfter == 0 {
		cfg.WedgeAfter = time.Hour // fakes do not count their progress
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if setUp != nil {
		setUp(r)
	}
	s, err := newSupervisor(cfg, r.files)
	if err != nil {
		t.Fatal(err)
	}
	r.Supervisor = s
	return r
}

// end closes the supervisor and checks what has to be true of every run.
func (r *rig) end() {
	r.t.Helper()
	synctest.Wait()
	for _, info := range r.list(context.Background()).Slots {
		if info.InFlight != 0 {
			r.t.Errorf("slot %s has %d leases out at the end", info.SlotID, info.InFlight)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.launcher.mu.Lock()
	defer r.launcher.mu.Unlock()
	if len(r.launcher.alive) > 0 {
		r.t.Errorf("processes are left: %v", r.launcher.alive)
	}
	for _, text := range r.launcher.broken {
		r.t.Errorf("a rule was broken: %s", text)
	}
}

func (r *rig) slot(id string) shared.SlotInfo {
	synctest.Wait() // what others see of a change may come a moment before the slot shows it
	r.t.Helper()
	for _, info := range r.list(context.Background()).Slots {
		if info.SlotID == id {
			return info
		}
	}
	r.t.Fatalf("no slot %s", id)
	return shared.SlotInfo{}
}

// ask sends a short request to a slot.
func (r *rig) ask(ctx context.Context, slotID string, change ...func(*shared.GenerateRequest)) (shared.Result, string, error) {
	req := shared.GenerateRequest{Requirement: shared.Requirement{SlotID: slotID}, Prompt: "tell me"}
	for _, f := range change {
		f(&req)
	}
	text := ""
	res, err := r.Generate(ctx, req, func(c shared.Chunk) error {
		text += c.Text
		return nil
	})
	return res, text, err
}

func (r *rig) mustAsk(slotID string, change ...func(*shared.GenerateRequest)) shared.Result {
	r.t.Helper()
	res, text, err := r.ask(r.t.Context(), slotID, change...)
	if err != nil {
		r.t.Fatalf("a request on %s failed: %v", slotID, err)
	}
	if text != "once upon a time" {
		r.t.Errorf("the text is %q", text)
	}
	return res
}

func onMiss(m shared.OnMiss) func(*shared.GenerateRequest) {
	return func(r *shared.GenerateRequest) { r.OnMiss = m }
}

func deadline(d time.Duration) func(*shared.GenerateRequest) {
	return func(r *shared.GenerateRequest) { r.Deadline = d }
}

// bubble runs a test on a clock that moves only when everybody waits.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func wantKind(t *testing.T, err error, kind shared.Kind) {
	t.Helper()
	_ = errorOf(t, err, kind)
}

// errorOf gives an error that has to be of a kind.
func errorOf(t *testing.T, err error, kind shared.Kind) *shared.Error {
	t.Helper()
	e := shared.AsError(err, "", "")
	if e == nil || e.Kind != kind {
		t.Fatalf("the error is %v, want kind %s", err, kind)
	}
	return e
}
