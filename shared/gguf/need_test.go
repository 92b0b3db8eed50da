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
	}
}
