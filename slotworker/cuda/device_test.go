//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

func TestInventory(t *testing.T) {
	d := opened(t)
	want := shared.DeviceInfo{
		Name: "cuda:0", Model: "Stand-in for a GPU", Capability: "9.0",
		UUID: "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0", Driver: "12.4", Memory: 8 << 30,
	}
	if diff := cmp.Diff(want, d.Info()); diff != "" {
		t.Error(diff)
	}
	b, err := d.allocate(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if free, total, err := d.Memory(); err != nil || total != 8<<30 || free != total-1<<20 {
		t.Errorf("%d of %d, %v", free, total, err)
	}
	if err := d.release(b); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	driver.reset()
	turn(t, "devices", 2)
	for name, kind := range map[string]shared.Kind{
		"cuda:2": shared.KindUnavailable, "cuda:65535": shared.KindUnavailable,
		"cuda:65536": shared.KindConfig, "cuda:": shared.KindConfig, "cuda": shared.KindConfig, "cpu": shared.KindConfig, "": shared.KindConfig,
		"cuda:-1": shared.KindConfig, "cuda:+1": shared.KindConfig, "cuda:01": shared.KindConfig, "cuda:1x": shared.KindConfig, "CUDA:1": shared.KindConfig,
	} {
		d, err := Open(name)
		if shared.KindOf(err) != kind || d != nil {
			t.Errorf("%q: %v, %v", name, d, err)
		}
		var e *shared.Error
		if !errors.As(err, &e) || e.Field != "device" {
			t.Errorf("%q: %v", name, err)
		}
	}
	d, err := Open("cuda:1")
	if err != nil {
		t.Fatal(err)
	}
	if id := d.Info().UUID; id != "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1" {
		t.Error(id)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	counts(t, nothing)
}

// A device that cannot be described is not opened, and its context given back.
func TestFailedOpenLeavesNothing(t *testing.T) {
	driver.reset()
	turn(t, "refuse_uuid", 1)
	if d, err := Open("cuda:0"); d != nil || shared.KindOf(err) != shared.KindUnsupported || err.Error() != "cannot use cuda:0: NotSupported" {
		t.Errorf("%v, %v", d, err)
	}
	counts(t, nothing)
}

// Without a device the process ends before it begins, with one line on its
// standard output: that is cu's way, and what the supervisor has to make sense of.
func TestProcessWithoutADevice(t *testing.T) {
	for words, name := range map[string]string{"devices=0": "NoDevice", "init=803": "SystemDriverMismatch", "init=34": "UnknownErrorCode:34"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "FIRSTFRAME_STANDIN="+words)
		out, err := cmd.Output()
		want := `Error in initialization, please refer to "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__INITIALIZE.html" for details on: ` + name + "\n"
		var exit *exec.ExitError
		if string(out) != want || !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %q, %v", words, out, err)
		}
	}
}

func TestBuffers(t *testing.T) {
	d := opened(t)
	b, err := d.allocate(1000)
	if err != nil {
		t.Fatal(err)
	}
	sent, got := bytes.Repeat([]byte("firstframe"), 100), make([]byte, 1000)
	if err := d.upload(b, sent); err != nil {
		t.Error(err)
	}
	if err := d.download(got, b); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%v", err)
	}
	for what, err := range map[string]error{
		"more than the buffer":   d.upload(b, make([]byte, 1001)),
		"more from the buffer":   d.download(make([]byte, 1001), b),
		"nothing":                d.upload(b, nil),
		"no buffer":              d.upload(buffer{}, sent),
		"a buffer of no bytes":   func() error { _, err := d.allocate(0); return err }(),
		"locking nothing":        func() error { _, err := d.AllocHost(0); return err }(),
		"locking less":           func() error { _, err := d.AllocHost(-1); return err }(),
		"locking an empty range": d.RegisterHost(nil),
		"freeing what is Go's":   d.FreeHost(got),
		"unlocking what is not":  d.UnregisterHost(got),
	} {
		if shared.KindOf(err) != shared.KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.release(b); err != nil {
		t.Error(err)
	}
	if err := d.release(b); shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("freed twice: %v", err)
	}
}

// A mapped file is locked in place, also where the driver lets it be locked only
// for reading.
func TestRegisterAMappedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	content := bytes.Repeat([]byte{1, 2, 3}, 10_000)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mapped, err := unix.Mmap(int(file.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	})
	for readOnly, name := range []string{"for all", "for reading"} {
		t.Run(name, func(t *testing.T) {
			d := opened(t)
			turn(t, "read_only", int64(readOnly))
			if err := d.RegisterHost(mapped); err != nil {
				t.Fatal(err)
			}
			if err := d.RegisterHost(mapped); shared.KindOf(err) != shared.KindEngine {
				t.Errorf("locked twice: %v", err)
			}
			b, err := d.allocate(int64(len(mapped)))
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(mapped))
			if err := errors.Join(d.upload(b, mapped), d.download(got, b)); err != nil || !bytes.Equal(got, content) {
				t.Error(err)
			}
			counts(t, map[string]int64{"live_registered": 1, "bytes_registered": int64(len(mapped)), "pinned_copies": 1, "not_portable": 0})
			if err := errors.Join(d.UnregisterHost(mapped), d.release(b)); err != nil {
				t.Error(err)
			}
			if err := d.UnregisterHost(mapped); shared.KindOf(err) != shared.KindInvalid {
				t.Errorf("unlocked twice: %v", err)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		d := opened(t)
		turn(t, "refuse_register", 1)
		if err := d.RegisterHost(mapped); shared.KindOf(err) != shared.KindUnsupported || err.Error() != "cannot page-lock 30000 bytes of host memory in place: NotPermitted" {
			t.Error(err)
		}
	})
}

func TestOutOfMemory(t *testing.T) {
	d := opened(t)
	turn(t, "memory", 1<<20)
	if _, err := d.allocate(1<<20 + 1); shared.KindOf(err) != shared.KindUnavailable || err.Error() != "cannot allocate 1048577 bytes of cuda:0: OutOfMemory" {
		t.Error(err)
	}
	turn(t, "oom_device", 2)
	b, err := d.allocate(1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.allocate(1000); shared.KindOf(err) != shared.KindUnavailable {
		t.Error(err)
	}
	turn(t, "oom_host", 1)
	if _, err := d.AllocHost(5000); shared.KindOf(err) != shared.KindUnavailable || err.Error() != "cannot page-lock 5000 bytes of host memory: OutOfMemory" {
		t.Error(err)
	}
	if p, err := d.AllocHost(5000); err != nil {
		t.Error(err)
	} else if err := d.FreeHost(p); err != nil {
		t.Error(err)
	}
	if err := d.release(b); err != nil {
		t.Error(err)
	}
}

// The device is lost in a copy: that call says so, and every later one; what is
// given back is counted as the driver counts it.
func TestDeviceLostInACopy(t *testing.T) {
	d := opened(t)
	b, err := d.allocate(4096)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	turn(t, "lost_copy", 2)
	if err := d.upload(b, p); err != nil {
		t.Fatal(err)
	}
	err = d.upload(b, p)
	if want := "cannot copy 4096 bytes to cuda:0: cuda:0 said EccUncorrectable: the device is lost"; !errors.Is(err, slotworker.ErrDeviceLost) || shared.KindOf(err) != shared.KindUnavailable || err.Error() != want {
		t.Errorf("%v", err)
	}
	_, _, memory := d.Memory()
	_, pinned := d.AllocHost(10)
	_, allocated := d.allocate(10)
	_, probed := d.Probe(t.Context())
	for what, err := range map[string]error{
		"memory": memory, "locking": pinned, "allocating": allocated, "probing": probed, "registering": d.RegisterHost(make([]byte, 10)),
		"copying": d.upload(b, p), "copying back": d.download(make([]byte, 10), b), "freeing": d.FreeHost(p), "releasing": d.release(b),
	} {
		if !errors.Is(err, slotworker.ErrDeviceLost) || shared.KindOf(err) != shared.KindUnavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	counts(t, map[string]int64{"live_host": 1, "live_device": 1, "bad_frees": 0})
	if d.Info().Name != "cuda:0" {
		t.Error("a lost device is forgotten")
	}
	if err := d.Close(); !errors.Is(err, slotworker.ErrDeviceLost) || !strings.Contains(err.Error(), "1 page-locked blocks, 0 locked ranges and 1 buffers are in use") {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, _, err := d.Memory(); shared.KindOf(err) != shared.KindShuttingDown {
		t.Error(err)
	}
	if d, err := open("cuda:0"); !errors.Is(err, slotworker.ErrDeviceLost) {
		t.Errorf("%v, %v", d, err)
	}
	counts(t, map[string]int64{"live_contexts": 0})
}

func TestCloseWaitsForMemory(t *testing.T) {
	d := opened(t)
	p, err := d.AllocHost(10)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); shared.KindOf(err) != shared.KindBusy {
		t.Error(err)
	}
	if err := errors.Join(d.FreeHost(p), d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	counts(t, nothing)
	if _, err := d.Probe(t.Context()); shared.KindOf(err) != shared.KindShuttingDown {
		t.Error(err)
	}
}

// Callers on any goroutine share the one context.
func TestConcurrentCalls(t *testing.T) {
	d := opened(t)
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			for range 20 {
				p, err := d.AllocHost(5000)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := d.allocate(5000)
				if err != nil {
					t.Error(err)
					return
				}
				for j := range p {
					p[j] = i
				}
				got := make([]byte, len(p))
				if err := errors.Join(d.upload(b, p), d.download(got, b)); err != nil || !bytes.Equal(got, p) {
					t.Error(err)
				}
				if err := errors.Join(d.release(b), d.FreeHost(p)); err != nil {
					t.Error(err)
				}
			}
			if _, err := d.Probe(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
