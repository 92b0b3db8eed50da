//go:build cuda

package gpuchain

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
	"github.com/firstframe/firstframe/supervisor"
)

// patience bounds every wait for something that is sure to come.
const patience = 3 * time.Minute

// chain is a supervisor with workers that find a driver of their own.
type chain struct {
	*supervisor.Supervisor
	t      *testing.T
	driver string // its folder
}

// newChain starts a supervisor with one slot on cuda:0, whose driver fails as told.
func newChain(t *testing.T, transfer shared.Transfer, faults string) *chain {
	t.Helper()
	c := &chain{t: t, driver: t.TempDir()}
	c.fail(faults)
	var library []byte
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if b, err := os.ReadFile(filepath.Join(dir, "libcuda.so.1")); err == nil {
			library = b
			break
		}
	}
	if library == nil {
		t.Fatal("these tests take the stand-in for the driver: run them with scripts/cuda.sh test")
	}
	if err := os.WriteFile(filepath.Join(c.driver, "libcuda.so.1"), library, 0o700); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "ff") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	state, err := supervisor.OpenStateDir(filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	launcher, err := supervisor.NewWorkerLauncher(supervisor.LauncherConfig{
		CUDAWorker: os.Args[0], EngineDir: enginetest.Dir(t), State: state, StartTimeout: patience,
		Env: []string{"LD_LIBRARY_PATH=" + c.driver, "GORACE=atexit_sleep_ms=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	model, err := filepath.Abs(filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	c.Supervisor, err = supervisor.New(supervisor.Config{
		Launcher: launcher, StateDir: state.Path(),
		Slots: []shared.SlotSpec{{
			SlotID: "gpu", Model: "storyteller", ModelPath: model, Device: "cuda:0", Transfer: transfer,
			ContextTokens: 256, Parallel: 1, PageTokens: 64, KVType: "f16", PrefillChunk: 64, Threads: 1, PagesHost: 4 << 20,
		}},
		Restart: shared.RestartPolicy{Attempts: 1000, Interval: time.Hour, Delay: time.Millisecond, MaxDelay: time.Millisecond, Mode: shared.RestartFail},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, end := range []func() error{func() error { return c.Close(ctx) }, launcher.Close, state.Close} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// fail has the driver of processes that start from now on fail.
func (c *chain) fail(faults string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.driver, "faults"), []byte(faults), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) slot() shared.SlotInfo {
	c.t.Helper()
	l, err := c.ListSlots(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return l.Slots[0]
}

// served wants a readable answer.
func (c *chain) served() {
	c.t.Helper()
	var text strings.Builder
	_, err := c.Generate(c.t.Context(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: "gpu"}, Messages: []shared.Message{{Role: "user", Content: "Tell me a story about a fox."}},
		MaxTokens: 20, Deadline: patience,
	}, func(chunk shared.Chunk) error { text.WriteString(chunk.Text); return nil })
	if err != nil || !strings.Contains(text.String(), "fox") {
		c.t.Errorf("answered %q, %v", text.String(), err)
	}
}

// The driver's figures decide about the transfer, the model is served out of
// page-locked memory, and that stays when the slot is evicted.
func TestServedFromLockedMemory(t *testing.T) {
	c := newChain(t, shared.TransferAuto, "pageable_rate=100000000 pinned_rate=4000000000")
	c.served()
	s := c.slot()
	if s.Transfer != shared.TransferPinned || !s.Pinned || len(s.Probe.Points) == 0 || !strings.Contains(s.TransferReason, "page-locked memory copies at") {
		t.Errorf("the slot is %+v", s)
	}
	if s.DeviceInfo.Model != "Stand-in for a GPU" || s.DeviceInfo.Memory != 8<<30 || s.DeviceHeld == 0 {
		t.Errorf("the device is %+v, of which %d are held", s.DeviceInfo, s.DeviceHeld)
	}
	if s, err := c.Evict(t.Context(), "gpu", false); err != nil || !s.Pinned || s.HostBytes == 0 || s.DeviceBytes != 0 {
		t.Errorf("evicted: %+v, %v", s, err)
	}
	c.served()
	if l, _ := c.ListSlots(t.Context()); len(l.Budgets) != 1 || l.Budgets[0].Limit != 8<<30 || l.Slots[0].Restarts != 0 {
		t.Errorf("budgets %+v, slot %+v", l.Budgets, l.Slots[0])
	}
}

func TestPinningIsRefused(t *testing.T) {
	c := newChain(t, shared.TransferPinned, "refuse_pinning=1")
	c.served()
	if s := c.slot(); s.Transfer != shared.TransferPageable || s.Pinned || !strings.Contains(s.PinNote, "page-locking was refused") {
		t.Errorf("the slot is %+v", s)
	}
}

// A device that is lost in a copy is an error of the slot, whose worker is replaced
// by one that can use it again.
func TestDeviceIsLostInACopy(t *testing.T) {
	c := newChain(t, shared.TransferAuto, "lost_copy=3")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lost := make(chan string, 1)
	go func() {
		_ = c.WatchSlots(ctx, func(l shared.SlotList) error {
			if text := l.Slots[0].LastError; strings.Contains(text, "the device is lost") {
				select {
				case lost <- text:
					c.fail("") // the next process finds it well
				default:
				}
			}
			return nil
		})
	}()
	c.served()
	select {
	case text := <-lost:
		if !strings.Contains(text, "cuda:0") {
			t.Errorf("the slot said %q", text)
		}
	default:
		t.Error("the slot did not say that the device is lost")
	}
	if s := c.slot(); s.Restarts < 1 || s.LastError != "" || s.Status != shared.SlotResident {
		t.Errorf("the slot is %+v", s)
	}
}
