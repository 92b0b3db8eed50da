package gguf_test

import (
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// The engine reported these for contexts of 1024 tokens and chunks of 512.
func TestDeviceNeedIsALittleMoreThanWhatTheEngineTakes(t *testing.T) {
	for _, c := range []struct {
		file     string
		transfer shared.Transfer
		parallel int
		measured int64
	}{
		{"storyteller-q8_0.gguf", shared.TransferMmap, 1, 9982443},
		{"storyteller-q8_0.gguf", shared.TransferMmap, 4, 22628270},
		{"storyteller-q8_0.gguf", shared.TransferPageable, 1, 13337886},
		{"storyteller-q4_0.gguf", shared.TransferMmap, 1, 11460935}, // repacked
		{"storyteller-q4_0.gguf", shared.TransferPageable, 4, 24473763},
		{"storyteller-f16.gguf", shared.TransferMmap, 4, 22628270},
		{"storyteller-f16.gguf", shared.TransferPageable, 1, 16284384},
	} {
		f, err := gguf.ReadFile(filepath.Join("..", "..", "testdata", "models", c.file))
		if err != nil {
			t.Fatal(err)
		}
		spec := shared.SlotSpec{Transfer: c.transfer, ContextTokens: 1024, Parallel: c.parallel, KVType: "f16", PrefillChunk: 512}
		need := f.DeviceNeed(spec)
		if need < c.measured || need > c.measured*3/2 {
			t.Errorf("%s %s × %d: estimated %d, measured %d", c.file, c.transfer, c.parallel, need, c.measured)
		}
		quantized := spec
		quantized.KVType = "q8_0"
		if f.DeviceNeed(quantized) >= need {
			t.Errorf("%s: KV memory in q8_0 is not smaller", c.file)
		}
		if f.HostNeed(spec) != 0 {
			t.Errorf("%s: on the CPU all is the device's", c.file)
		}
	}
}

// On a GPU every weight is in one memory or the other, and each layer that the
// GPU is not given moves what belongs to it.
func TestNeedOnAGPU(t *testing.T) {
	f, err := gguf.ReadFile(filepath.Join("..", "..", "testdata", "models", "storyteller-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	spec := shared.SlotSpec{Device: "cuda:0", ContextTokens: 1024, Parallel: 2, KVType: "f16", PrefillChunk: 512}
	host, device := f.HostNeed(spec), f.DeviceNeed(spec)
	if device < f.WeightBytes()/2 || host <= 0 || host > device {
		t.Errorf("whole: %d in host memory and %d on the device", host, device)
	}
	layers := f.Geometry().Layers
	for n := layers; n > 0; n-- {
		spec.GPULayers = n
		h, d := f.HostNeed(spec), f.DeviceNeed(spec)
		if h <= host || d >= device {
			t.Errorf("%d of %d layers: %d and %d after %d and %d", n, layers, h, d, host, device)
		}
		if sum, before := h+d, host+device; sum < before*99/100 || sum > before*101/100 {
			t.Errorf("%d of %d layers: %d bytes in all after %d", n, layers, sum, before)
		}
		host, device = h, d
	}
}
