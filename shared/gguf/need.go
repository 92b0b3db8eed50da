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
	_, device := f.need(spec)
	return device
}

// HostNeed estimates what such a slot allocates in host memory beside the host
// buffer: nothing on the CPU, where all of it is the device's.
func (f *File) HostNeed(spec shared.SlotSpec) int64 {
	host, _ := f.need(spec)
	return host
}

func (f *File) need(spec shared.SlotSpec) (host, device int64) {
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
	kv := f.kvBytes(g, spec, tokens)
	if spec.OnCPU() {
		return 0, (f.ownWeights(spec) + kv + step) * needFactor / 8
	}
	// Inputs and results of a step pass through host memory.
	host = rows * (int64(g.Vocab) + 2*int64(g.Embedding)) * 4
	from := firstOnGPU(g, spec)
	inHost, onDevice := f.gpuWeights(g, from)
	kvInHost := kv * int64(min(from, g.Layers)) / int64(max(g.Layers, 1))
	return (host + inHost + kvInHost) * needFactor / 8, (onDevice + kv - kvInHost + step) * needFactor / 8
}

// firstOnGPU is the first layer that a GPU computes. What comes after the last
// layer counts as one more, which is the first to go there.
func firstOnGPU(g Geometry, spec shared.SlotSpec) int {
	if spec.GPULayers == 0 {
		return 0
	}
	return max(g.Layers+1-spec.GPULayers, 0)
}

// gpuWeights is what the engine copies of the weights into either memory. The
// embeddings of tokens stay with the CPU, and go to the GPU as well when they are
// what turns results into tokens.
func (f *File) gpuWeights(g Geometry, from int) (host, device int64) {
	tied := true
	var embeddings int64
	for _, t := range f.tensors {
		name, _, _ := strings.Cut(t.Name, ".")
		layer := g.Layers
		switch name {
		case "token_embd":
			embeddings += t.Bytes
			host += t.Bytes
			continue
		case "output":
			tied = false
		case "blk":
			number, _, _ := strings.Cut(strings.TrimPrefix(t.Name, "blk."), ".")
			layer, _ = strconv.Atoi(number) // the engine refuses a name without one
		}
		if layer < from {
			host += t.Bytes
		} else {
			device += t.Bytes
		}
	}
	if tied && g.Layers >= from {
		device += embeddings
	}
	return host, device
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
		if copied(spec.Transfer) || repacked(t) {
			sum += t.Bytes
		}
	}
	return sum
}

// copied reports whether the host buffer is a copy of the file, which the engine
// copies again.
func copied(t shared.Transfer) bool {
	return t == shared.TransferPageable || t == shared.TransferPinned
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
