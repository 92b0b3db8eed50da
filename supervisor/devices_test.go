package supervisor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/firstframe/firstframe/shared"
)

func testGPU(memory int64) shared.DeviceInfo {
	return shared.DeviceInfo{Name: "cuda:0", Model: "Test GPU", Capability: "9.0", UUID: "GPU-1", Driver: "12.4", Memory: memory}
}

// gpuRig has a slot on the CPU and two on a GPU, all of the same file.
func gpuRig(t *testing.T, memory int64, setUp func(*rig)) *rig {
	t.Helper()
	cfg := Config{MinResidency: -1}
	for id, device := range map[string]string{"cpu": "cpu", "a": "cuda:0", "b": "cuda:0"} {
		s := rigSlot(id, "story", "Q8_0")
		s.Device = device
		cfg.Slots = append(cfg.Slots, s)
	}
	return newRig(t, cfg, func(r *rig) {
		if memory > 0 {
			r.launcher.devices = map[string]shared.DeviceInfo{"cuda:0": testGPU(memory)}
		}
		if setUp != nil {
			setUp(r)
		}
	})
}

// Without the device its slots say so, start nothing, and leave the others alone.
// A restart looks for it again.
func TestSlotsOfAMissingDevice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := gpuRig(t, 0, nil)
		defer r.end()
		r.mustAsk("cpu")
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindUnavailable); e.Field != deviceField || !strings.Contains(e.Text(), "there is no cuda:0") {
			t.Errorf("the error is %+v", e)
		}
		if a := r.slot("a"); a.Process != shared.ProcessStopped || a.Status != shared.SlotEmpty || a.LastError == "" || r.launcher.launched("a") != 0 {
			t.Errorf("a is %+v after %d launches", a, r.launcher.launched("a"))
		}
		// A request that names the model means the one that can be served.
		res, err := r.Resolve(t.Context(), shared.Requirement{Model: "story"})
		if err != nil || len(res.SlotIDs) != 1 || res.SlotIDs[0] != "cpu" {
			t.Errorf("the model means %v, %v", res.SlotIDs, err)
		}
		r.launcher.mu.Lock()
		r.launcher.devices = map[string]shared.DeviceInfo{"cuda:0": testGPU(1 << 20)}
		r.launcher.mu.Unlock()
		if _, err := r.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.mustAsk("a")
		if a := r.slot("a"); a.DeviceInfo.Model != "Test GPU" || a.LastError != "" {
			t.Errorf("a is %+v", a)
		}
	})
}

// A device that does not say what it is keeps nobody waiting but its own slots, and
// these wait for one answer.
func TestDeviceThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		silent := make(chan struct{})
		cfg := Config{MinResidency: -1}
		for id, device := range map[string]string{"a": "cuda:0", "b": "cuda:0", "other": "cuda:1"} {
			s := rigSlot(id, "story", "Q8_0")
			s.Device = device
			cfg.Slots = append(cfg.Slots, s)
		}
		r := newRig(t, cfg, func(r *rig) {
			r.launcher.devices = map[string]shared.DeviceInfo{"cuda:1": testGPU(1 << 20)}
			r.launcher.describe = func(name string) {
				if name == "cuda:0" {
					<-silent
				}
			}
		})
		defer r.end()
		synctest.Wait()
		r.mustAsk("other")
		close(silent)
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			if text := r.slot(id).LastError; !strings.Contains(text, "there is no cuda:0") {
				t.Errorf("%s says %q", id, text)
			}
		}
		r.launcher.mu.Lock()
		defer r.launcher.mu.Unlock()
		if n := r.launcher.asked["cuda:0"]; n != 1 {
			t.Errorf("cuda:0 was asked %d times", n)
		}
	})
}

// A device is part of what a slot is, and has the memory that it has: without any
// declared budget, two slots that do not fit together take turns.
func TestDeviceBoundsItsSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := gpuRig(t, 3000, nil) // a fake is estimated at 2100
		defer r.end()
		r.mustAsk("a")
		r.mustAsk("cpu")
		if held := r.held("cuda:0"); held != 2000 {
			t.Errorf("%d bytes are held", held)
		}
		r.mustAsk("b")
		a, b, cpu := r.slot("a"), r.slot("b"), r.slot("cpu")
		if a.Status != shared.SlotEmpty || a.HostBufferID == "" || b.Status != shared.SlotResident || cpu.Status != shared.SlotResident {
			t.Errorf("a is %s with host buffer %q, b is %s, cpu is %s", a.Status, a.HostBufferID, b.Status, cpu.Status)
		}
		if a.Identity != b.Identity || a.Identity == cpu.Identity {
			t.Errorf("identities: %v, %v, %v", a.Identity, b.Identity, cpu.Identity)
		}
		if b.DeviceHeld != 2000 || cpu.DeviceHeld != 0 {
			t.Errorf("b holds %d, cpu %d", b.DeviceHeld, cpu.DeviceHeld)
		}
	})
	bubble(t, func(t *testing.T) {
		r := gpuRig(t, 2000, nil)
		defer r.end()
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindUnavailable); !strings.Contains(e.Text(), "memory of device cuda:0 is short by") {
			t.Errorf("the error is %+v", e)
		}
	})
}

// A worker that cannot use its device any more is not started again and again, and
// one that loses it is, by the usual policy.
func TestDeviceGoesAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := gpuRig(t, 1<<20, func(r *rig) {
			r.launcher.launch = func(_ context.Context, slotID string, _ int) error {
				if slotID == "a" {
					return deviceError("the driver sees no GPU")
				}
				return nil
			}
		})
		defer r.end()
		_, _, err := r.ask(t.Context(), "a")
		if e := errorOf(t, err, shared.KindUnavailable); !strings.Contains(e.Text(), "the driver sees no GPU") {
			t.Errorf("the error is %+v", e)
		}
		r.mustAsk("b")
		if a := r.slot("a"); a.Process != shared.ProcessFailed || a.RetryAfter != 0 || r.launcher.launched("a") != 1 {
			t.Errorf("a is %s, tried again in %v, after %d launches", a.Process, a.RetryAfter, r.launcher.launched("a"))
		}
	})
	bubble(t, func(t *testing.T) {
		r := gpuRig(t, 1<<20, func(r *rig) {
			r.launcher.script = func(slotID string, n int, w *fakeWorker) {
				if slotID == "a" && n == 1 {
					w.onPrefetch = func(context.Context) error {
						return shared.Errorf(shared.KindUnavailable, "cannot copy to cuda:0: the device is lost")
					}
				}
			}
		})
		defer r.end()
		seen := make(chan string, 1)
		go func() {
			_ = r.WatchSlots(t.Context(), func(l shared.SlotList) error {
				for _, s := range l.Slots {
					if s.SlotID == "a" && s.LastError != "" {
						select {
						case seen <- s.LastError:
						default:
						}
					}
				}
				return nil
			})
		}()
		r.mustAsk("a")
		if a := r.slot("a"); a.Restarts != 1 || a.LastError != "" || r.launcher.launched("a") != 2 {
			t.Errorf("a is %+v", a)
		}
		if text := <-seen; !strings.Contains(text, "the device is lost") {
			t.Errorf("the slot said %q", text)
		}
	})
}
