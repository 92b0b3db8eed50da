package ggufwrite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/firstframe/firstframe/shared/gguf"
)

// Case is a file that must not become a served model.
type Case struct {
	Name  string
	Bytes []byte
	// Want is a part of the error.
	Want string
	// Weights is set when the header is in order and the weights are not.
	Weights bool
	// EngineOnly is set when only the engine can tell, because it knows which
	// tensors an architecture has.
	EngineOnly bool
}

// Malformed makes wrong files out of a llama model, which has to be well-formed.
// Each is wrong in one way.
func Malformed(valid []byte) ([]Case, error) {
	header, err := gguf.Read(bytes.NewReader(valid), int64(len(valid)))
	if err != nil {
		return nil, err
	}
	whole, err := FromBytes(valid)
	if err != nil {
		return nil, err
	}
	cases := cuts(valid, header)
	for _, e := range edits() {
		f := &File{Keys: slices.Clone(whole.Keys), Tensors: slices.Clone(whole.Tensors), Alignment: whole.Alignment}
		e.edit(f)
		file, err := f.Encode()
		if err != nil {
			return nil, fmt.Errorf("cannot make the case %s: %w", e.name, err)
		}
		cases = append(cases, Case{Name: e.name, Bytes: file, Want: e.want, EngineOnly: e.engine})
	}
	return append(cases, badWeights(valid, header)...), nil
}

// cuts ends the file in each of its regions.
func cuts(valid []byte, header *gguf.File) []Case {
	after := func(key string, skip int) int { return bytes.Index(valid, []byte(key)) + len(key) + skip }
	tensors := header.Tensors()
	first, last := tensors[0], tensors[len(tensors)-1]
	var cases []Case
	for _, c := range []struct {
		name string
		size int
		want string
	}{
		{"empty", 0, "the file is empty"},
		{"cut in the magic", 2, "file header at byte 0"},
		{"cut in the version", 6, "file header at byte 4"},
		{"cut in the tensor count", 12, "file header at byte 8"},
		{"cut in the key count", 20, "file header at byte 16"},
		{"cut after the counts", 24, "but only 0 bytes follow"},
		{"cut in the first key", 24 + 8 + 5, "at byte 8"},
		{"cut early in the metadata", after("llama.block_count", 6), "tensors, but only"},
		{"cut in the vocabulary", after("tokenizer.ggml.tokens", 2000), `metadata key "tokenizer.ggml.tokens"`},
		{"cut in the token types", after("tokenizer.ggml.token_type", 1000), `metadata key "tokenizer.ggml.token_type"`},
		{"cut in a value's type", after("tokenizer.ggml.eos_token_id", 2), `metadata key "tokenizer.ggml.eos_token_id"`},
		{"cut in a number", after("tokenizer.ggml.eos_token_id", 6), `metadata key "tokenizer.ggml.eos_token_id"`},
		{"cut in the tensor table", after(last.Name, 3), "tensor table"},
		{"cut before the weights", int(header.DataOffset()), fmt.Sprintf("tensor %q", first.Name)},
		{"cut in the first tensor", int(first.Offset + first.Bytes/2), fmt.Sprintf("tensor %q", first.Name)},
		{"cut by one byte", int(last.Offset+last.Bytes) - 1, fmt.Sprintf("tensor %q", last.Name)},
	} {
		cases = append(cases, Case{Name: c.name, Bytes: valid[:c.size], Want: c.want})
	}
	return cases
}

// badWeights puts values that are no numbers among the weights.
func badWeights(valid []byte, header *gguf.File) []Case {
	var cases []Case
	spoil := func(name string, of func(gguf.Tensor) bool, put func([]byte)) {
		for _, t := range header.Tensors() {
			if of(t) {
				file := bytes.Clone(valid)
				put(file[t.Offset:])
				cases = append(cases, Case{Name: name, Bytes: file, Want: fmt.Sprintf("tensor %q", t.Name), Weights: true})
				return
			}
		}
	}
	isVector := func(t gguf.Tensor) bool { return t.Type == gguf.F32 }
	startsWithF16 := func(t gguf.Tensor) bool {
		return t.Type == gguf.F16 || t.Type == gguf.Q8_0 || t.Type == gguf.Q4_0
	}
	spoil("NaN in a norm", isVector, func(b []byte) {
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(math.NaN())))
	})
	spoil("infinity in a norm", isVector, func(b []byte) {
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(math.Inf(-1))))
	})
	spoil("NaN as a scale", startsWithF16, func(b []byte) { binary.LittleEndian.PutUint16(b, 0x7e00) })
	spoil("infinity as a scale", startsWithF16, func(b []byte) { binary.LittleEndian.PutUint16(b, 0xfc00) })
	return cases
}
