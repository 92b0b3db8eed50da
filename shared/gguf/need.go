package gguf

import (
	"strconv"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// What a slot has that does not set it, as the worker fills it in.
const (
	needChunk  = 512
	needFactor = 9 // eighths of the sum of the parts: buffers have gaps
)

// DeviceNeed estimates what a slot of this model allocates on its device beside
// the model's bytes in the host buffer: weights that are not used in place, KV
// memory and the buffers of one step. It is meant to be a little too much.
func (f *File) DeviceNeed(spec shared.SlotSpec) int64 {
	g := f.Geometry()
	tokens, sequences, chunk := spec.ContextTokens, max(spec.Parallel, 1), spec.PrefillChunk
	if tokens == 0 {
		tokens = f.TrainedTokens()
	}
	if chunk == 0 {
		chunk = needChunk
	}
	rows := int64(min(chunk, max(tokens, 1)) + sequences)
	// The widest results of a step, and the logits of each row.
	width := int64(g.Vocab) + 2*int64(g.FeedForward) + 6*int64(g.Embedding)
	step := rows * width * 4
	return (f.ownWeights(spec) + f.kvBytes(g, spec, tokens) + step) * needFactor / 8
}

// kvBytes is the KV memory of all sequences.
func (f *File) kvBytes(g Geometry, spec shared.SlotSpec, tokens int) int64 {
	heads := int64(0)
	for word := range strings.SplitSeq(g.HeadsKVPerLayer, ",") {
		n, _ := strconv.ParseInt(word, 10, 64) // empty when all layers are alike
		heads += n
	}
	if heads == 0 {
		heads = int64(g.HeadsKV) * int64(g.Layers)
	}
	cells := (int64(tokens) + 255) / 256 * 256 * int64(max(spec.Parallel, 1))
	// In thousandths of a byte: quantized types take no whole number.
	size := map[string]int64{"f32": 4000, "q8_0": 1063}[spec.KVType]
	if size == 0 {
		size = 2000
	}
	return cells * heads * int64(g.HeadK+g.HeadV) * size / 1000
}

// ownWeights is what the engine copies: everything when the host buffer is only
// where it is read from, else what it repacks for its kernels.
func (f *File) ownWeights(spec shared.SlotSpec) int64 {
	var sum int64
	for _, t := range f.tensors {
		if spec.Transfer == shared.TransferPageable || repacked(t) {
			sum += t.Bytes
		}
	}
	return sum
}

// repacked reports whether the CPU backend may lay a tensor out anew.
func repacked(t Tensor) bool {
	const q2K, q4K, iq4NL = 10, 12, 20
	switch t.Type {
	case Q4_0, q2K, q4K, iq4NL:
		return len(t.Dims) > 1
	}
	return false
}
