package gguf

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// The ends of names in an adapter: the two factors of what is added to a
// tensor, and norms, which the engine leaves out.
const (
	factorA = ".lora_a"
	factorB = ".lora_b"
	norms   = "_norm.weight"
)

// Adapter is the header of a LoRA adapter. It does not change after ReadAdapter.
type Adapter struct {
	file  *File
	pairs map[string]factors // by the name of the model's tensor
}

// factors are what is added to one tensor: the product of both.
type factors struct{ a, b *Tensor }

// ReadAdapter reads and checks the header of an adapter of size bytes.
func ReadAdapter(r io.ReaderAt, size int64) (*Adapter, error) {
	file, err := read(r, size, (*File).checkAdapter)
	if err != nil {
		return nil, err
	}
	a := &Adapter{file: file, pairs: map[string]factors{}}
	for i := range file.tensors {
		if err := a.sort(&file.tensors[i]); err != nil {
			return nil, err
		}
	}
	for name, p := range a.each() {
		switch {
		case p.a == nil:
			return nil, a.wrong(name, "the adapter has only %s of tensor %q", factorB, name)
		case p.b == nil:
			return nil, a.wrong(name, "the adapter has only %s of tensor %q", factorA, name)
		}
	}
	if len(a.pairs) == 0 {
		return nil, a.wrong("", "the adapter changes no tensor")
	}
	return a, nil
}

// sort puts a tensor where it belongs by its name.
func (a *Adapter) sort(t *Tensor) error {
	if name, ok := strings.CutSuffix(t.Name, factorA); ok {
		p := a.pairs[name]
		p.a = t
		a.pairs[name] = p
		return nil
	}
	if name, ok := strings.CutSuffix(t.Name, factorB); ok {
		p := a.pairs[name]
		p.b = t
		a.pairs[name] = p
		return nil
	}
	if strings.HasSuffix(t.Name, norms) {
		return nil
	}
	return a.wrong(t.Name, "the tensor %q ends neither in %s nor in %s", t.Name, factorA, factorB)
}

// each goes through the pairs in the order of their names, so that the same
// file always has the same error.
func (a *Adapter) each() func(func(string, factors) bool) {
	return func(yield func(string, factors) bool) {
		for _, name := range slices.Sorted(maps.Keys(a.pairs)) {
			if !yield(name, a.pairs[name]) {
				return
			}
		}
	}
}

// checkAdapter checks the keys of an adapter.
func (f *File) checkAdapter() error {
	if kind := f.String("general.type"); kind != "adapter" {
		if kind == "" {
			kind = "a model"
		}
		return wrong("general.type", "the file holds %q and not an adapter", clip(kind))
	}
	switch kind := f.String("adapter.type"); {
	case kind == "":
		return wrong("adapter.type", "missing: the file does not say what kind of adapter it is")
	case kind != "lora":
		return wrong("adapter.type", "an adapter of type %q cannot be applied, only lora", clip(kind))
	}
	if v, ok := f.values["adapter.lora.alpha"]; ok && v.typ != Float32 {
		return wrong("adapter.lora.alpha", "%s instead of float32", v.typ)
	}
	if _, ok := f.values["adapter.alora.invocation_tokens"]; ok {
		return &shared.Error{
			Kind: shared.KindUnsupported, Field: "adapter.alora.invocation_tokens",
			Message: "an adapter that only certain tokens switch on is not supported by this version yet",
		}
	}
	if err := f.checkAlignment(); err != nil {
		return err
	}
	return f.checkArchitecture()
}

// Fits checks that the adapter is one for this model, as strictly as the engine.
func (a *Adapter) Fits(model *File) error {
	if has, wants := model.Architecture(), a.file.Architecture(); has != wants {
		return a.wrong("general.architecture", "the adapter is for models of architecture %q, and the model's is %q", wants, has)
	}
	tensors := make(map[string]*Tensor, len(model.tensors))
	for i := range model.tensors {
		tensors[model.tensors[i].Name] = &model.tensors[i]
	}
	for name, p := range a.each() {
		base := tensors[name]
		if base == nil {
			return a.wrong(name, "the adapter changes tensor %q, which the model does not have", name)
		}
		if !p.fit(base) {
			return a.wrong(name, "the adapter's factors %v and %v do not fit tensor %q of shape %v: the adapter is for another model", p.a.Dims, p.b.Dims, name, base.Dims)
		}
	}
	return nil
}

// fit reports whether the product of the factors has the shape of a tensor. The
// embedding's are the other way around, since the engine takes rows of it.
func (p factors) fit(base *Tensor) bool {
	a, b, m := dims(p.a), dims(p.b), dims(base)
	if len(base.Dims) < 2 || a[2] != m[2] || b[2] != m[2] || a[3] != m[3] || b[3] != m[3] || a[1] != b[0] && base.Name != embedding {
		return false
	}
	if base.Name == embedding {
		return a[1] == m[1] && b[1] == m[0] && a[0] == b[0]
	}
	return a[0] == m[0] && b[1] == m[1]
}

// embedding is the tensor that rows are taken of.
const embedding = "token_embd.weight"

// dims fills up to four dimensions.
func dims(t *Tensor) [maxDims]uint64 {
	d := [maxDims]uint64{1, 1, 1, 1}
	copy(d[:], t.Dims)
	return d
}

// Size is the size of the whole file.
func (a *Adapter) Size() int64 { return a.file.size }

// CheckWeights is File.CheckWeights of the adapter's own tensors.
func (a *Adapter) CheckWeights(ctx context.Context, data []byte) error {
	return a.file.CheckWeights(ctx, data)
}

func (a *Adapter) wrong(field, format string, args ...any) error {
	return &shared.Error{Kind: shared.KindModelFile, Field: field, Message: fmt.Sprintf(format, args...)}
}

// AdapterSize reads the header of an adapter's file, checks that it is one for
// this model and gives the file's size.
func (f *File) AdapterSize(path string) (int64, error) {
	file, size, err := Open(path)
	if err != nil {
		return 0, AdapterError(path, err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	a, err := ReadAdapter(file, size)
	if err == nil {
		err = a.Fits(f)
	}
	if err != nil {
		return 0, AdapterError(path, err)
	}
	return size, nil
}

// AdapterError says of an error that it is about an adapter's file.
func AdapterError(path string, err error) error {
	e := *shared.AsError(err, "", "")
	if e.Kind == shared.KindOther {
		e.Kind = shared.KindModelFile
	}
	e.Message, e.Err = fmt.Sprintf("adapter %s: %s", path, e.Text()), nil
	return &e
}
