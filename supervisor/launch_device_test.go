package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// describeTestDevice does what a worker program does that is asked for a device, or
// what happens to one before it can.
func describeTestDevice(name string) {
	switch name {
	case "cuda:0":
		_ = json.NewEncoder(os.Stdout).Encode(testGPU(80 << 30))
		os.Exit(0)
	case "cuda:1": // CUDA's binding finds no device while the program starts
		fmt.Println(`Error in initialization, please refer to "https://docs.nvidia.com/cuda/" for details on: NoDevice`)
		os.Exit(1)
	case "cuda:2": // the loader finds no driver
		fmt.Fprintln(os.Stderr, "worker: error while loading shared libraries: libcuda.so.1: cannot open shared object file: No such file or directory")
		os.Exit(127)
	case "cuda:3":
		select {}
	case "cuda:4":
		fmt.Println("hello")
		os.Exit(0)
	case "cuda:6": // JSON, but no device
		fmt.Println("{}")
		os.Exit(0)
	case "cuda:7": // another one
		_ = json.NewEncoder(os.Stdout).Encode(testGPU(80 << 30))
		os.Exit(0)
	}
	os.Exit(5)
}

func onDevices(c *LauncherConfig) { c.CUDAWorker = os.Args[0] }

func TestDeviceIsDescribed(t *testing.T) {
	l := newTestLauncher(t, onDevices)
	if info, err := l.Device(t.Context(), "cuda:0"); err != nil || info != testGPU(80<<30) {
		t.Errorf("got %+v, %v", info, err)
	}
	for name, want := range map[string]string{
		"cuda:1": "the driver sees no GPU (Error in initialization",
		"cuda:2": "there is no NVIDIA driver on this machine (worker: error while loading shared libraries: libcuda.so.1",
		"cuda:4": "does not say what cuda:4 is",
		"cuda:5": "cuda:5 cannot be used: exit status 5",
		"cuda:6": `does not say what cuda:6 is, but that there is ""`,
		"cuda:7": `does not say what cuda:7 is, but that there is "cuda:0"`,
	} {
		_, err := l.Device(t.Context(), name)
		if e := shared.AsError(err, "", ""); e.Kind != shared.KindUnavailable || e.Field != deviceField || !strings.Contains(e.Text(), want) {
			t.Errorf("%s: got %+v", name, e)
		}
	}
}

// A program that says nothing is ended, by a deadline or by who asked.
func TestDeviceThatHangs(t *testing.T) {
	l := newTestLauncher(t, onDevices, func(c *LauncherConfig) { c.StartTimeout = 300 * time.Millisecond })
	_, err := l.Device(t.Context(), "cuda:3")
	if e := shared.AsError(err, "", ""); e.Field != deviceField || !strings.Contains(e.Text(), "was not described within 300ms") {
		t.Errorf("got %+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTestLauncher(t, onDevices).Device(ctx, "cuda:3"); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
}

// The worker of a slot on a device is another program, and when that ends at once
// the error is about the device.
func TestLaunchOnADevice(t *testing.T) {
	l := newTestLauncher(t, onDevices)
	p, err := l.Launch(t.Context(), "ok", "cuda:0", "")
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(within(t, 20*time.Second), 0)
	_, err = l.Launch(t.Context(), "crash", "cuda:0", "")
	if shared.KindOf(err) != shared.KindWorkerLost || !strings.Contains(err.Error(), "the floor is missing") {
		t.Errorf("with a device that is there: %v", err)
	}
	for _, slot := range []string{"crash", "garbage"} { // whatever CUDA prints in the place of the handshake
		_, err = l.Launch(t.Context(), slot, "cuda:1", "")
		if e := shared.AsError(err, "", ""); e.Field != deviceField || !strings.Contains(e.Text(), "the driver sees no GPU") {
			t.Errorf("%s: with a device that has gone: %+v", slot, e)
		}
	}
}

func TestFindCUDAWorker(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := FindCUDAWorker(""); err == nil || !strings.Contains(err.Error(), "task cuda:build") {
		t.Errorf("without one: %q, %v", path, err)
	}
	want := filepath.Join(dir, CUDAWorkerName)
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := FindCUDAWorker(""); err != nil || path != want {
		t.Errorf("in PATH: %q, %v", path, err)
	}
	if path, err := FindCUDAWorker(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "cuda_worker") {
		t.Errorf("a configured one that is missing: %q, %v", path, err)
	}
}
