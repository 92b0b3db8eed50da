//go:build cuda

package gpuchain

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/cuda"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
)

// This program is its own worker: the supervisor starts it with these arguments.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (strings.HasPrefix(os.Args[1], "--slot=") || strings.HasPrefix(os.Args[1], "--describe=")) {
		os.Exit(slotworker.Main(context.Background(), slotworker.MainConfig{
			Args:       os.Args[1:],
			OpenEngine: openEngine,
			OpenDevice: cuda.Open,
			Version:    "test",
		}))
	}
	os.Exit(leak.Main(m))
}

// cpuEngine is the real engine, which computes on the CPU what it is told to compute
// on a device.
type cpuEngine struct{ slotworker.Engine }

func openEngine(dir string) (slotworker.Engine, error) {
	e, err := llamacpp.Open(dir)
	if err != nil {
		return nil, err
	}
	return cpuEngine{e}, nil
}

func (e cpuEngine) Load(req slotworker.LoadRequest) (slotworker.Model, error) {
	if req.Device != "cuda:0" || req.Path != "" {
		return nil, shared.Errorf(shared.KindProtocol, "the engine is told to load %q on %s", req.Path, req.Device)
	}
	req.Device, req.GPULayers = shared.CPUDevice, 0
	return e.Engine.Load(req)
}
