package ggufwrite

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/firstframe/firstframe/shared/gguf"
)

// edit makes one thing wrong in a file.
type edit struct {
	name   string
	want   string
	edit   func(*File)
	engine bool
}

func edits() []edit {
	all := wrongHeader()
	all = append(all, wrongMetadata()...)
	all = append(all, wrongTokenizer()...)
	all = append(all, wrongTensors()...)
	return append(all, wrongForTheEngine()...)
}

// set gives keys a value.
func set(keys ...Key) func(*File) {
	return func(f *File) {
		for _, k := range keys {
			f.Set(k)
		}
	}
}

// remove takes a key out.
func remove(name string) func(*File) { return func(f *File) { f.Remove(name) } }

// claim makes a list or string of a key longer than it is.
func claim(name string, count uint64) func(*File) {
	return func(f *File) { f.Find(name).Value.Count = count }
}

func wrongHeader() []edit {
	const huge = 1 << 60
	return []edit{
		{name: "wrong magic", want: "this is no GGUF file", edit: func(f *File) { f.Broken.Magic = "GGML" }},
		{name: "version 1", want: "GGUF version 1", edit: func(f *File) { f.Broken.Version = 1 }},
		{name: "version 99", want: "GGUF version 99", edit: func(f *File) { f.Broken.Version = 99 }},
		{name: "big-endian", want: "big-endian GGUF", edit: func(f *File) { f.Broken.BigEndian = true }},
		{name: "absurd number of keys", want: "metadata keys", edit: func(f *File) { f.Broken.KeyCount = huge }},
		{name: "absurd number of tensors", want: "claims 1152921504606846976 tensors", edit: func(f *File) { f.Broken.TensorCount = huge }},
		{name: "one key more than there are", want: " at byte ", edit: func(f *File) { f.Broken.KeyCount = uint64(len(f.Keys)) + 1 }},
		{name: "no tensors", want: "the file has no tensors", edit: func(f *File) { f.Tensors = nil }},
	}
}

func wrongMetadata() []edit {
	nested := Key{"nested", gguf.Value{Type: gguf.Array, Elem: gguf.Array, Count: 1}}
	return []edit{
		{name: "a key twice", want: "the key is there twice", edit: func(f *File) { f.Keys = append(f.Keys, f.Keys[0]) }},
		{name: "an empty key", want: "the key is empty", edit: set(Str("", "x"))},
		{name: "a key with a zero byte", want: "zero byte", edit: set(Str("general.architecture\x00", "llama"))},
		{name: "a key that is too long", want: "the key has 70000 bytes", edit: set(Str(strings.Repeat("k", 70000), "x"))},
		{name: "unknown value type", want: "unknown value type 77", edit: set(Key{"odd", gguf.Value{Type: 77}})},
		{name: "unknown element type", want: "unknown array element type 77", edit: set(Key{"odd", gguf.Value{Type: gguf.Array, Elem: 77, Count: 1}})},
		{name: "an array of arrays", want: "an array of arrays", edit: set(nested)},
		{name: "absurd string length", want: "claims a string of", edit: func(f *File) {
			// An array of one string whose length does not come from its bytes.
			f.Set(Key{"odd", gguf.Value{Type: gguf.Array, Elem: gguf.String, Count: 1, Raw: []byte("\xff\xff\xff\xff\xff\xff\xff\x7f")}})
		}},
		{name: "absurd array length", want: "claims an array of", edit: claim("tokenizer.ggml.token_type", 1<<61)},
		{name: "absurd list of strings", want: "claims an array of", edit: claim("tokenizer.ggml.tokens", math.MaxUint64)},
		{name: "a bool of two", want: "a bool with the value 2", edit: set(Key{"odd", gguf.Value{Type: gguf.Bool, Raw: []byte{2}}})},
		{name: "no architecture", want: `"general.architecture": missing`, edit: remove("general.architecture")},
		{name: "unknown architecture", want: `the architecture "nonsense" is unknown`, edit: rename("nonsense")},
		{name: "an encoder", want: "does not continue text", edit: rename("bert")},
		{name: "an adapter", want: `the file holds "adapter"`, edit: set(Str("general.type", "adapter"))},
		{name: "one of several parts", want: "missing in a split model", edit: set(U16("split.count", 3))},
		{name: "alignment of zero", want: "the alignment 0", edit: set(U32("general.alignment", 0))},
		{name: "alignment of 48", want: "the alignment 48", edit: set(U32("general.alignment", 48))},
		{name: "alignment of a gigabyte", want: "the alignment 1073741824", edit: set(U32("general.alignment", 1<<30))},
		{name: "no layers", want: `"llama.block_count": missing or zero`, edit: set(U32("llama.block_count", 0))},
		{name: "absurd number of layers", want: "layers; the engine takes at most", edit: set(U32("llama.block_count", 1<<30))},
		{name: "absurd width", want: "4294967295 is not a sensible size", edit: set(U32("llama.embedding_length", math.MaxUint32))},
		{name: "absurd number of experts", want: "experts; the engine takes at most", edit: set(U32("llama.expert_count", 1<<20), U32("llama.expert_used_count", 2))},
		{name: "epsilon is NaN", want: "NaN is not a sensible value", edit: set(F32("llama.attention.layer_norm_rms_epsilon", float32(math.NaN())))},
		{name: "unknown rope scaling", want: `the scaling "nonsense"`, edit: set(Str("llama.rope.scaling.type", "nonsense"))},
		{name: "odd rope", want: "rotated dimensions is odd", edit: set(U32("llama.rope.dimension_count", 63))},
	}
}

// rename gives the model another architecture and its keys the new prefix.
func rename(arch string) func(*File) {
	return func(f *File) {
		f.Set(Str("general.architecture", arch))
		for i := range f.Keys {
			if rest, ok := strings.CutPrefix(f.Keys[i].Name, "llama."); ok {
				f.Keys[i].Name = arch + "." + rest
			}
		}
	}
}

func wrongTokenizer() []edit {
	return []edit{
		{name: "no tokenizer", want: `"tokenizer.ggml.model": missing`, edit: func(f *File) {
			kept := f.Keys[:0]
			for _, k := range f.Keys {
				if !strings.HasPrefix(k.Name, "tokenizer.") {
					kept = append(kept, k)
				}
			}
			f.Keys = kept
		}},
		{name: "no vocabulary", want: `"tokenizer.ggml.tokens": missing`, edit: remove("tokenizer.ggml.tokens")},
		{name: "vocabulary of numbers", want: `"tokenizer.ggml.tokens": missing`, edit: set(I32s("tokenizer.ggml.tokens", 1, 2, 3))},
		{name: "a token twice", want: "token 1023 is the same as token 5", edit: func(f *File) {
			tokens := f.strings("tokenizer.ggml.tokens")
			tokens[1023] = tokens[5]
			f.Set(Strs("tokenizer.ggml.tokens", tokens...))
		}},
		{name: "too few token types", want: "entries for 1024 tokens", edit: set(I32s("tokenizer.ggml.token_type", 1, 1))},
		{name: "token types of floats", want: "not a list of int32", edit: set(F32s("tokenizer.ggml.token_type", make([]float32, 1024)...))},
		{name: "merges as one string", want: "not a list of string", edit: set(Str("tokenizer.ggml.merges", "a b"))},
		{name: "sentence pieces without bytes", want: "no token stands for the byte", edit: set(Str("tokenizer.ggml.model", "llama"))},
	}
}

func wrongTensors() []edit {
	at := func(index int, offset uint64) func(*File) {
		return func(f *File) { f.Tensors[index].Offset = &offset }
	}
	dims := func(d ...uint64) func(*File) { return func(f *File) { f.Tensors[2].Dims = d } }
	typed := func(t gguf.TensorType) func(*File) { return func(f *File) { f.Tensors[2].Type = t } }
	return []edit{
		{name: "absurd offset", want: "the data has only", edit: at(5, 1<<50)},
		{name: "offset that overflows", want: "the data has only", edit: at(5, math.MaxUint64-31)},
		{name: "misaligned offset", want: "not aligned to 32", edit: func(f *File) { at(5, f.offset(5)+1)(f) }},
		{name: "overlapping tensors", want: "overlaps tensor", edit: func(f *File) { at(5, f.offset(4))(f) }},
		{name: "a gap between tensors", want: "leaves a gap", edit: at(0, 32)},
		{name: "dimensions that overflow", want: "more elements than can be counted", edit: dims(1<<32, 1<<32, 1<<32)},
		{name: "bytes that overflow", want: "more bytes than can be counted", edit: func(f *File) { dims(1 << 62)(f); typed(gguf.F32)(f) }},
		{name: "five dimensions", want: "has 5 dimensions", edit: dims(1, 1, 1, 1, 1)},
		{name: "absurd number of dimensions", want: "dimensions; at most 4", edit: dims(make([]uint64, 5000)...)},
		{name: "a dimension of zero", want: "it has no elements", edit: dims(256, 0)},
		{name: "half a block", want: "no multiple of the 32", edit: func(f *File) { dims(100, 1)(f); typed(gguf.Q8_0)(f) }},
		{name: "unknown tensor type", want: "unknown tensor type 200", edit: typed(200)},
		{name: "removed tensor type", want: "unknown tensor type 4", edit: typed(4)},
		{name: "weights of intermediate type", want: "the engine cannot use for weights", edit: retype(9, 32, 36)},
		{name: "weights of integers", want: "the engine cannot use for weights", edit: retype(26, 1, 4)},
		{name: "vector that is not F32", want: "needs vectors in F32", edit: func(f *File) {
			t := f.tensor("output_norm.weight")
			t.Type, t.Bytes, t.Data = gguf.F16, t.Bytes/2, zeros(t.Bytes/2)
		}},
		{name: "a tensor twice", want: "is listed twice", edit: func(f *File) { f.Tensors[3].Name = f.Tensors[2].Name }},
		{name: "a tensor without a name", want: "has no name", edit: func(f *File) { f.Tensors[3].Name = "" }},
		{name: "a tensor name that is too long", want: "has a name of 64 bytes", edit: func(f *File) { f.Tensors[3].Name = strings.Repeat("n", 64) }},
		{name: "a tensor name with a zero byte", want: "contains a zero byte", edit: func(f *File) { f.Tensors[3].Name += "\x00" }},
	}
}

func wrongForTheEngine() []edit {
	return []edit{
		{name: "another architecture's tensors", engine: true, edit: rename("gemma2")},
		{name: "width that the tensors do not have", engine: true, edit: set(U32("llama.embedding_length", 512))},
		{name: "more layers than there are", engine: true, edit: func(f *File) { f.Set(U32("llama.block_count", f.layers()+1)) }},
		{name: "fewer layers than there are", engine: true, edit: func(f *File) { f.Set(U32("llama.block_count", f.layers()-1)) }},
		{name: "a layer without a tensor", engine: true, edit: func(f *File) {
			last := len(f.Tensors) - 1
			f.Tensors = f.Tensors[:last]
		}},
		{name: "a tensor too many", engine: true, edit: func(f *File) {
			f.Tensors = append(f.Tensors, Tensor{Name: "surplus", Dims: []uint64{8}, Type: gguf.F32, Bytes: 32, Data: zeros(32)})
		}},
		{name: "a matrix of another shape", engine: true, edit: func(f *File) {
			t := f.tensor("blk.1.attn_k.weight")
			t.Dims = []uint64{t.Dims[0] * 2, t.Dims[1] / 2}
		}},
		{name: "vocabulary that the weights do not have", engine: true, edit: func(f *File) {
			f.Set(Strs("tokenizer.ggml.tokens", f.strings("tokenizer.ggml.tokens")[:1000]...))
			f.Remove("tokenizer.ggml.token_type")
		}},
		{name: "unknown pre-tokenizer", engine: true, edit: set(Str("tokenizer.ggml.pre", "nonsense"))},
		{name: "no merges", engine: true, edit: remove("tokenizer.ggml.merges")},
	}
}

// retype gives the first matrix another type, with zeros as data.
func retype(typ gguf.TensorType, block, size int64) func(*File) {
	return func(f *File) {
		t := f.tensor("blk.0.attn_q.weight")
		elements := int64(t.Dims[0] * t.Dims[1])
		t.Type, t.Bytes = typ, elements/block*size
		t.Data = zeros(t.Bytes)
	}
}

func zeros(n int64) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(make([]byte, n))
		return err
	}
}

// tensor finds a tensor that has to be there.
func (f *File) tensor(name string) *Tensor {
	for i := range f.Tensors {
		if f.Tensors[i].Name == name {
			return &f.Tensors[i]
		}
	}
	panic(fmt.Sprintf("the valid file has no tensor %s", name))
}

// layers is the number of layers that the file says it has.
func (f *File) layers() uint32 {
	return binary.LittleEndian.Uint32(f.Find("llama.block_count").Value.Raw)
}

// offset is where a tensor's data starts in the data region.
func (f *File) offset(index int) uint64 {
	n := uint64(0)
	for _, t := range f.Tensors[:index] {
		n += (uint64(t.Bytes) + 31) / 32 * 32
	}
	return n
}

// strings decodes a list of strings that has to be there.
func (f *File) strings(name string) []string {
	var list []string
	for raw := f.Find(name).Value.Raw; len(raw) > 0; {
		n := 8 + binary.LittleEndian.Uint64(raw)
		list = append(list, string(raw[8:n]))
		raw = raw[n:]
	}
	return list
}
