package e2e

import (
	"bytes"
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// brokenModel is a model file with one thing wrong with it.
type brokenModel struct {
	name  string
	bytes []byte
}

// brokenModels makes every kind of broken file from a Q4_0 model that is whole.
func brokenModels(t *testing.T, valid []byte) []brokenModel {
	t.Helper()
	header, err := gguf.Read(bytes.NewReader(valid), int64(len(valid)))
	if err != nil {
		t.Fatal(err)
	}
	var all []brokenModel
	add := func(name string, b []byte) { all = append(all, brokenModel{name, b}) }
	// edit changes a copy of the whole file and writes it again.
	edit := func(name string, change func(f *ggufwrite.File)) {
		f, err := ggufwrite.FromBytes(valid)
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		b, err := f.Encode()
		if err != nil {
			t.Fatal(name, err)
		}
		add(name, b)
	}
	data := int(header.DataOffset())
	add("empty", nil)
	add("cut in the magic", valid[:2])
	add("cut in the counts", valid[:13])
	add("cut in the metadata", valid[:200])
	add("cut in the vocabulary", valid[:data/3])
	add("cut in the tensor table", valid[:data-200])
	add("cut at the data", valid[:data])
	add("cut in the data", valid[:data+(len(valid)-data)/2])
	add("cut by one byte", valid[:len(valid)-1])
	add("text", []byte("this is no model, and nobody said that it is\n"))
	edit("wrong magic", func(f *ggufwrite.File) { f.Broken.Magic = "GGML" })
	edit("version 1", func(f *ggufwrite.File) { f.Broken.Version = 1 })
	edit("version 99", func(f *ggufwrite.File) { f.Broken.Version = 99 })
	edit("big-endian", func(f *ggufwrite.File) { f.Broken.BigEndian = true })
	edit("absurd number of keys", func(f *ggufwrite.File) { f.Broken.KeyCount = 1 << 62 })
	edit("absurd number of tensors", func(f *ggufwrite.File) { f.Broken.TensorCount = 1 << 62 })
	edit("one key too few", func(f *ggufwrite.File) { f.Broken.KeyCount = uint64(len(f.Keys)) - 1 })
	edit("no tensors", func(f *ggufwrite.File) { f.Tensors = nil })
	edit("a key twice", func(f *ggufwrite.File) { f.Keys = append(f.Keys, f.Keys[0]) })
	edit("a tensor twice", func(f *ggufwrite.File) { f.Tensors[1].Name = f.Tensors[0].Name })
	edit("overlapping tensors", func(f *ggufwrite.File) { f.Tensors[1].Offset = new(uint64) })
	edit("absurd offset", func(f *ggufwrite.File) { far := uint64(1) << 60; f.Tensors[1].Offset = &far })
	edit("unaligned offset", func(f *ggufwrite.File) { odd := uint64(7); f.Tensors[1].Offset = &odd })
	edit("overflowing dimensions", func(f *ggufwrite.File) { f.Tensors[0].Dims = []uint64{1 << 33, 1 << 33} })
	edit("unknown tensor type", func(f *ggufwrite.File) { f.Tensors[0].Type = 9999 })
	edit("zero alignment", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("general.alignment", 0)) })
	edit("odd alignment", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("general.alignment", 33)) })
	edit("no architecture", func(f *ggufwrite.File) { f.Remove("general.architecture") })
	edit("unknown architecture", func(f *ggufwrite.File) { f.Set(ggufwrite.Str("general.architecture", "nonsense")) })
	edit("no tokenizer", func(f *ggufwrite.File) { f.Remove("tokenizer.ggml.tokens") })
	edit("vocabulary of other length", func(f *ggufwrite.File) { f.Set(ggufwrite.Strs("tokenizer.ggml.tokens", "a", "b")) })
	edit("wrong embedding length", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.embedding_length", 512)) })
	edit("no layers", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.block_count", 0)) })
	edit("absurd number of layers", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.block_count", 1<<31)) })
	edit("no heads", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.attention.head_count", 0)) })
	edit("a tensor is missing", func(f *ggufwrite.File) { f.Tensors = slices.Delete(f.Tensors, 3, 4) })
	nan := slices.Clone(valid)
	for _, tensor := range header.Tensors() {
		if tensor.Type == gguf.Q4_0 {
			nan[tensor.Offset], nan[tensor.Offset+1] = 0x00, 0x7e // the first block's scale is NaN
			break
		}
	}
	add("NaN scale", nan)
	return all
}
