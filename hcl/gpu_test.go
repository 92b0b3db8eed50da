package hcl

import (
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// TestGPU: what a GPU is asked for is read without there being one.
func TestGPU(t *testing.T) {
	cfg, out := parseText(`
supervisor {
  cuda_worker = "bin/worker"
  budget {
    device "cuda:1" { memory = "2GiB" }
  }
}
model "m" { path = "m.gguf" }
slot "all" {
  model  = model.m
  device = "cuda:0"
}
slot "some" {
  model      = model.m
  device     = "cuda:1"
  transfer   = "pinned"
  gpu_layers = 12
}`, nil)
	if cfg == nil {
		t.Fatal(out)
	}
	if cfg.CUDAWorker != "base/bin/worker" || cfg.Life.Budgets["cuda:1"] != 2<<30 {
		t.Errorf("worker %q, budgets %v", cfg.CUDAWorker, cfg.Life.Budgets)
	}
	all, some := cfg.Slots[0], cfg.Slots[1]
	if all.Device != "cuda:0" || all.GPULayers != 0 || all.Transfer != shared.TransferAuto {
		t.Errorf("%+v", all)
	}
	if some.Device != "cuda:1" || some.GPULayers != 12 || some.Transfer != shared.TransferPinned {
		t.Errorf("%+v", some)
	}
}
