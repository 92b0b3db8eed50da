package gguf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// adapterFor is a random adapter for a model, taken apart.
func adapterFor(t testing.TB, model *gguf.File) *ggufwrite.File {
	t.Helper()
	f, err := ggufwrite.Adapter{Base: model, Seed: 1}.Build()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readAdapter(b []byte) (*gguf.Adapter, error) {
	return gguf.ReadAdapter(bytes.NewReader(b), int64(len(b)))
}

func TestAdapterFitsItsModelOnly(t *testing.T) {
	model, err := read(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := adapterFor(t, model).Encode()
	if err != nil {
		t.Fatal(err)
	}
	a, err := readAdapter(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Fits(model); err != nil {
		t.Error(err)
	}
	if err := a.CheckWeights(t.Context(), b); err != nil || a.Size() != int64(len(b)) {
		t.Errorf("%d bytes of %d: %v", a.Size(), len(b), err)
	}
	if _, err := read(b); err == nil || !strings.Contains(err.Error(), "and not a model") {
		t.Errorf("an adapter passes for a model: %v", err)
	}
	if _, err := readAdapter(storyteller(t, "q8_0")); err == nil || !strings.Contains(err.Error(), "and not an adapter") {
		t.Errorf("a model passes for an adapter: %v", err)
	}
	narrow, err := ggufwrite.Model{Embedding: 64, Layers: 6, Tokenizer: ggufwrite.CopyKeys(model, "tokenizer.")}.Build()
	if err != nil {
		t.Fatal(err)
	}
	wantModelError(t, a.Fits(mustRead(t, narrow)), "do not fit tensor")
	for _, kind := range []ggufwrite.Kind{ggufwrite.Window, ggufwrite.Recurrent} {
		other, err := ggufwrite.Model{Kind: kind, Tokenizer: ggufwrite.CopyKeys(model, "tokenizer.")}.Build()
		if err != nil {
			t.Fatal(err)
		}
		wantModelError(t, a.Fits(mustRead(t, other)), "of architecture")
	}
	shallow, err := ggufwrite.FromBytes(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range shallow.Tensors {
		shallow.Tensors[i].Name = strings.Replace(shallow.Tensors[i].Name, "blk.2.attn_q", "blk.2.attn_x", 1)
	}
	wantModelError(t, a.Fits(mustRead(t, shallow)), "blk.2.attn_q.weight")
}

// TestAdapterOfTheEmbedding: the engine takes rows of the embedding's factors,
// which therefore lie the other way around.
func TestAdapterOfTheEmbedding(t *testing.T) {
	model, err := read(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	f := adapterFor(t, model)
	var vocab, width uint64
	for _, tensor := range model.Tensors() {
		if tensor.Name == "token_embd.weight" {
			width, vocab = tensor.Dims[0], tensor.Dims[1]
		}
	}
	factors := func(a, b []uint64) {
		f.Tensors = f.Tensors[:0]
		for _, x := range []struct {
			name string
			dims []uint64
		}{{"token_embd.weight.lora_a", a}, {"token_embd.weight.lora_b", b}} {
			n := int64(4 * x.dims[0] * x.dims[1])
			f.Tensors = append(f.Tensors, ggufwrite.Tensor{Name: x.name, Dims: x.dims, Type: gguf.F32, Bytes: n, Data: ggufwrite.Bytes(make([]byte, n))})
		}
	}
	fits := func() error {
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		a, err := readAdapter(b)
		if err != nil {
			t.Fatal(err)
		}
		return a.Fits(model)
	}
	factors([]uint64{2, vocab}, []uint64{2, width})
	if err := fits(); err != nil {
		t.Error(err)
	}
	factors([]uint64{width, 2}, []uint64{2, vocab})
	wantModelError(t, fits(), "do not fit")
}

func TestBadAdapters(t *testing.T) {
	model, err := read(storyteller(t, "q4_0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*ggufwrite.File)
	}{
		{"magic", "this is no GGUF file", func(f *ggufwrite.File) { f.Broken.Magic = "GGML" }},
		{"no type", "missing", func(f *ggufwrite.File) { f.Remove("adapter.type") }},
		{"another type", "only lora", func(f *ggufwrite.File) { f.Set(ggufwrite.Str("adapter.type", "dora")) }},
		{"not said to be one", "and not an adapter", func(f *ggufwrite.File) { f.Remove("general.type") }},
		{"alpha of another type", "instead of float32", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("adapter.lora.alpha", 3)) }},
		{"switched on by tokens", "switch on", func(f *ggufwrite.File) { f.Set(ggufwrite.I32s("adapter.alora.invocation_tokens", 3)) }},
		{"unknown architecture", "unknown to engine", func(f *ggufwrite.File) { f.Set(ggufwrite.Str("general.architecture", "nonsense")) }},
		{"half a pair", "has only .lora_a", func(f *ggufwrite.File) { f.Tensors = f.Tensors[:len(f.Tensors)-1] }},
		{"the other half", "has only .lora_b", func(f *ggufwrite.File) { f.Tensors = f.Tensors[1:] }},
		{"other tensors", "ends neither", func(f *ggufwrite.File) { f.Tensors[0].Name = "blk.0.attn_q.weight" }},
		{"nothing but norms", "changes no tensor", func(f *ggufwrite.File) {
			f.Tensors = f.Tensors[:1]
			f.Tensors[0].Name = "blk.0.attn_norm.weight"
		}},
		{"odd alignment", "alignment", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("general.alignment", 3)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := adapterFor(t, model)
			c.change(f)
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			_, err = readAdapter(b)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestIdentityOfAdapters: adapters, their order and their scales are all of what
// the slot revision covers.
func TestIdentityOfAdapters(t *testing.T) {
	model := mustRead(t, small())
	id := func(revisions []string, scales ...float32) shared.Identity {
		s := spec()
		for _, scale := range scales {
			s.Adapters = append(s.Adapters, shared.AdapterSpec{Path: "p", Scale: scale})
		}
		return model.Identity("sha256:0", s, revisions...)
	}
	a, b := "sha256:a", "sha256:b"
	all := []shared.Identity{
		id(nil), id([]string{a}, 1), id([]string{a}, 0.5), id([]string{b}, 1),
		id([]string{a, b}, 1, 1), id([]string{b, a}, 1, 1), id([]string{a, a}, 1, 1),
	}
	for i, one := range all {
		if !one.Complete() {
			t.Errorf("number %d is not complete", i)
		}
		for j, other := range all[:i] {
			if one == other {
				t.Errorf("numbers %d and %d are equal", j, i)
			}
			if diff := one.Differs(other); len(diff) != 1 || diff[0] != "slot_revision" {
				t.Errorf("numbers %d and %d differ in %v", j, i, diff)
			}
		}
	}
	if all[0].SlotRevision != shared.SlotRevisionPlain() {
		t.Error("a slot without adapters has another revision than before")
	}
	if id(nil, 1).SlotRevision != "" {
		t.Error("an adapter that is not known has a revision")
	}
}

func TestAdapterOnDisk(t *testing.T) {
	model, err := gguf.ReadFile(filepath.Join(models, "storyteller-q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := adapterFor(t, model).Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if size, err := model.AdapterSize(path); err != nil || size != int64(len(b)) {
		t.Errorf("%d, %v", size, err)
	}
	_, err = model.AdapterSize(filepath.Join(dir, "none"))
	wantModelError(t, err, "adapter "+filepath.Join(dir, "none"))
	s := shared.SlotSpec{SlotID: "s", Adapters: []shared.AdapterSpec{{Path: path, DeclaredSHA256: strings.Repeat("0", 64)}}}
	if err := gguf.CheckAdapters(s, []string{"sha256:" + strings.Repeat("0", 64)}); err != nil {
		t.Error(err)
	}
	if err := gguf.CheckAdapters(s, []string{"sha256:1"}); shared.KindOf(err) != shared.KindIdentity {
		t.Errorf("another digest: %v", err)
	}
}
