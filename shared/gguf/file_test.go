package gguf_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

func TestStoryteller(t *testing.T) {
	f, err := read(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	want := gguf.Geometry{
		Architecture: "llama", Layers: 4, Embedding: 256, FeedForward: 512,
		Heads: 4, HeadsKV: 4, HeadK: 64, HeadV: 64, RopeDims: 64, RopeBase: 10000, Vocab: 1024,
	}
	if diff := cmp.Diff(want, f.Geometry()); diff != "" {
		t.Errorf("geometry (-want +got):\n%s", diff)
	}
	if f.TrainedTokens() != 2048 || f.DataOffset() != 31488 || f.WeightBytes() != 3351552 || f.Size() != 3383040 {
		t.Errorf("trained tokens %d, data at %d, weights %d, size %d", f.TrainedTokens(), f.DataOffset(), f.WeightBytes(), f.Size())
	}
	tensors := f.Tensors()
	if len(tensors) != 39 || tensors[0].Type != gguf.Q8_0 {
		t.Errorf("%d tensors, the first of %v", len(tensors), tensors[0].Type)
	}
	tokens, ok := f.Strings("tokenizer.ggml.tokens")
	if !ok || len(tokens) != 1024 || tokens[1019] != "</s>" {
		t.Errorf("%d tokens", len(tokens))
	}
	if f.ChatTemplate() == "" {
		t.Error("the chat template is missing")
	}
}

func TestAccessors(t *testing.T) {
	f := mustRead(t, small())
	if n, ok := f.Uint("llama.block_count"); n != 3 || !ok {
		t.Errorf("Uint: %d, %v", n, ok)
	}
	if n, ok := f.Int("llama.block_count"); n != 3 || !ok {
		t.Errorf("Int: %d, %v", n, ok)
	}
	if x, ok := f.Float("llama.rope.freq_base"); x != 10000 || !ok {
		t.Errorf("Float: %g, %v", x, ok)
	}
	if b, ok := f.Bool("tokenizer.ggml.add_bos_token"); !b || !ok {
		t.Errorf("Bool: %v, %v", b, ok)
	}
	if list, ok := f.Ints("tokenizer.ggml.token_type"); len(list) != 8 || list[7] != 3 || !ok {
		t.Errorf("Ints: %v, %v", list, ok)
	}
	if s := f.String("general.name"); s != "small" {
		t.Errorf("String: %q", s)
	}
	// A key that is absent or of another type has no value.
	for _, key := range []string{"absent", "tokenizer.ggml.tokens"} {
		_, isUint := f.Uint(key)
		_, isInt := f.Int(key)
		_, isFloat := f.Float(key)
		_, isBool := f.Bool(key)
		_, isInts := f.Ints(key)
		if isUint || isInt || isFloat || isBool || isInts || f.String(key) != "" {
			t.Errorf("%s has a value of another type", key)
		}
	}
	if _, ok := f.Strings("tokenizer.ggml.scores"); ok {
		t.Error("numbers are given as strings")
	}
}

func TestVersion2AndAlignment(t *testing.T) {
	f := small()
	f.Broken.Version = 2
	mustRead(t, f)
	f = small()
	f.Set(ggufwrite.U32("general.alignment", 4096))
	f.Alignment = 4096
	if at := mustRead(t, f).DataOffset(); at != 4096 {
		t.Errorf("the data starts at %d", at)
	}
}

func TestPrecision(t *testing.T) {
	for number, want := range map[uint32]string{
		0: "F32", 1: "F16", 2: "Q4_0", 7: "Q8_0", 15: "Q4_K_M", 19: "IQ2_XXS", 32: "BF16", 38: "MXFP4_MOE",
		1024 + 15: "Q4_K_M", // guessed by the writer
		4:         "Q4_0",   // given up: what most bytes are
		77:        "Q4_0",   // unknown: what most bytes are
	} {
		f := small()
		f.Set(ggufwrite.U32("general.file_type", number))
		f.Tensors = append(f.Tensors, ggufwrite.Tensor{
			Name: "two", Dims: []uint64{64, 2}, Type: gguf.Q4_0, Bytes: 72, Data: ggufwrite.Bytes(make([]byte, 72)),
		})
		if got := mustRead(t, f).Precision(); got != want {
			t.Errorf("file type %d is %s, want %s", number, got, want)
		}
	}
}

func TestGeometryOfLayersThatDiffer(t *testing.T) {
	for _, c := range []struct {
		name     string
		keys     []ggufwrite.Key
		kv       int
		perLayer string
	}{
		{"no KV heads given", nil, 4, ""},
		{"all alike", []ggufwrite.Key{ggufwrite.I32s("llama.attention.head_count_kv", 2, 2, 2)}, 2, ""},
		{"different", []ggufwrite.Key{ggufwrite.I32s("llama.attention.head_count_kv", 2, 0, 4)}, 4, "2,0,4"},
		{"only the heads differ", []ggufwrite.Key{
			ggufwrite.I32s("llama.attention.head_count", 4, 2, 4), ggufwrite.U32("llama.attention.head_count_kv", 2),
		}, 2, "2,2,2"},
	} {
		f := small()
		for _, k := range c.keys {
			f.Set(k)
		}
		g := mustRead(t, f).Geometry()
		if g.HeadsKV != c.kv || g.HeadsKVPerLayer != c.perLayer {
			t.Errorf("%s: %d, %q", c.name, g.HeadsKV, g.HeadsKVPerLayer)
		}
	}
}

func TestGeometryOfTheRest(t *testing.T) {
	f := small()
	f.Set(ggufwrite.Str("llama.rope.scaling.type", "yarn"))
	f.Set(ggufwrite.F32("llama.rope.scaling.factor", 4))
	f.Set(ggufwrite.U32("llama.attention.sliding_window", 512))
	f.Set(ggufwrite.U32("llama.nextn_predict_layers", 1))
	f.Set(ggufwrite.U32("llama.attention.key_length", 32))
	want := gguf.Geometry{
		Architecture: "llama", Layers: 2, Embedding: 64, Heads: 4, HeadsKV: 4, HeadK: 32, HeadV: 16,
		RopeBase: 10000, RopeScaling: "yarn:4", SlidingWindow: 512, Vocab: 8,
	}
	if diff := cmp.Diff(want, mustRead(t, f).Geometry()); diff != "" {
		t.Errorf("geometry (-want +got):\n%s", diff)
	}
}

func TestKindsOfMemory(t *testing.T) {
	for arch, want := range map[string]gguf.Geometry{
		"mamba": {Recurrent: true}, "falcon-h1": {Hybrid: true}, "qwen3": {},
	} {
		f := small()
		f.Set(ggufwrite.Str("general.architecture", arch))
		for i := range f.Keys {
			if k := &f.Keys[i]; len(k.Name) > 6 && k.Name[:6] == "llama." {
				k.Name = fmt.Sprint(arch, ".", k.Name[6:])
			}
		}
		g := mustRead(t, f).Geometry()
		if g.Recurrent != want.Recurrent || g.Hybrid != want.Hybrid {
			t.Errorf("%s: recurrent %v, hybrid %v", arch, g.Recurrent, g.Hybrid)
		}
	}
}

func TestExperts(t *testing.T) {
	for _, c := range []struct {
		count, used, groups, groupsUsed uint32
		field                           string
	}{
		{8, 2, 0, 0, ""},
		{8, 2, 1, 1, ""},
		{8, 2, 4, 2, ""},
		{8, 0, 0, 0, "expert_used_count"},
		{8, 9, 0, 0, "expert_used_count"},
		{0, 2, 0, 0, "expert_used_count"},
		{1025, 2, 0, 0, "expert_count"},
		{8, 2, 3, 2, "expert_group_count"},
		{8, 2, 8, 2, "expert_group_count"},
		{8, 2, 4, 0, "expert_group_used_count"},
		{8, 2, 4, 4, "expert_group_used_count"},
	} {
		f := small()
		f.Set(ggufwrite.U32("llama.expert_count", c.count))
		f.Set(ggufwrite.U32("llama.expert_used_count", c.used))
		f.Set(ggufwrite.U32("llama.expert_group_count", c.groups))
		f.Set(ggufwrite.U32("llama.expert_group_used_count", c.groupsUsed))
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, err = read(b)
		if c.field == "" && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if c.field != "" {
			wantModelError(t, err, fmt.Sprintf("%q", "llama."+c.field))
		}
	}
}

func TestSentencePiecesWithBytes(t *testing.T) {
	tokens := []string{"<unk>"}
	for b := range 256 {
		if b == 'a' {
			tokens = append(tokens, "a") // stands for its byte, too
			continue
		}
		tokens = append(tokens, fmt.Sprintf("<0x%02X>", b))
	}
	f := small()
	f.Remove("tokenizer.ggml.token_type")
	f.Remove("tokenizer.ggml.scores")
	f.Set(ggufwrite.Str("tokenizer.ggml.model", "llama"))
	f.Set(ggufwrite.Strs("tokenizer.ggml.tokens", tokens...))
	mustRead(t, f)
}

func TestEmptyTokensMayRepeat(t *testing.T) {
	f := small()
	f.Set(ggufwrite.Strs("tokenizer.ggml.tokens", "", "", "", "a", "b", "c", "d", "e"))
	mustRead(t, f)
	f.Set(ggufwrite.Strs("tokenizer.ggml.tokens", "", "", "", "a", "b", "c", "d", "[EMPTY_1]"))
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, err = read(b)
	wantModelError(t, err, "token 7 is the same as token 1")
}
