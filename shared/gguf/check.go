package gguf

import (
	"github.com/firstframe/firstframe/shared"
)

// checkMetadata checks the keys that this package or the engine relies on.
func (f *File) checkMetadata() error {
	for _, check := range []func() error{
		f.checkKind, f.checkAlignment, f.checkFileType, f.checkArchitecture, f.checkTokenizer, f.checkGeometry,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkKind refuses files that hold only a part of a model or none.
func (f *File) checkKind() error {
	if _, ok := f.values["split.count"]; ok {
		n, ok := f.Uint("split.count")
		if !ok {
			return wrong("split.count", "not a count")
		}
		if n > 1 {
			return &shared.Error{
				Kind:    shared.KindUnsupported,
				Field:   "split.count",
				Message: "split GGUF files are not supported by this version yet",
			}
		}
	}
	if _, ok := f.values["general.type"]; ok {
		if kind := f.String("general.type"); kind != "model" {
			return wrong("general.type", "the file holds %q and not a model", kind)
		}
	}
	return nil
}

func (f *File) checkAlignment() error {
	const key = "general.alignment"
	f.alignment = defaultAlignment
	v, ok := f.values[key]
	if !ok {
		return nil
	}
	n, ok := f.Uint(key)
	if !ok || v.typ != Uint32 {
		return wrong(key, "the alignment is no uint32 but %s", v.typ)
	}
	if n == 0 || n&(n-1) != 0 || n > maxAlignment {
		return wrong(key, "the alignment %d is not a power of two from 1 to %d", n, maxAlignment)
	}
	f.alignment = int64(n)
	return nil
}

func (f *File) checkFileType() error {
	const key = "general.file_type"
	v, ok := f.values[key]
	if !ok {
		return nil
	}
	if _, ok := f.Uint(key); !ok {
		return wrong(key, "not a number but %s", v.typ)
	}
	return nil
}

func (f *File) checkArchitecture() error {
	const key = "general.architecture"
	v, ok := f.values[key]
	switch {
	case !ok:
		return wrong(key, "missing: the file does not say what kind of model it is")
	case v.typ != String || v.raw.start == v.raw.end:
		return wrong(key, "no name of an architecture")
	}
	return nil
}

// checkTokenizer makes sure that text can be turned into tokens, and that the
// lists beside the vocabulary have its length and the element types that the
// engine reads them as without looking.
func (f *File) checkTokenizer() error {
	const prefix = "tokenizer.ggml."
	if model := f.String(prefix + "model"); model == "" || model == "none" || model == "no_vocab" {
		return wrong(prefix+"model", "missing: the file has no tokenizer")
	}
	tokens := f.values[prefix+"tokens"]
	if tokens.typ != Array || tokens.elem != String || tokens.count == 0 {
		return wrong(prefix+"tokens", "missing: the file has no vocabulary")
	}
	for _, list := range []struct {
		key  string
		elem []ValueType
	}{
		{"scores", []ValueType{Float32}},
		{"token_type", []ValueType{Int32, Uint32}},
	} {
		v, ok := f.values[prefix+list.key]
		if !ok {
			continue
		}
		if v.typ != Array || !contains(list.elem, v.elem) {
			return wrong(prefix+list.key, "not a list of %s", list.elem[0])
		}
		if v.count != tokens.count {
			return wrong(prefix+list.key, "%d entries for %d tokens", v.count, tokens.count)
		}
	}
	if v, ok := f.values[prefix+"merges"]; ok && (v.typ != Array || v.elem != String) {
		return wrong(prefix+"merges", "not a list of strings")
	}
	return nil
}

func contains(list []ValueType, t ValueType) bool {
	for _, l := range list {
		if l == t {
			return true
		}
	}
	return false
}

// checkGeometry refuses dimensions that no model has, so that nobody computes
// with them.
func (f *File) checkGeometry() error {
	prefix := f.Architecture() + "."
	for _, name := range []string{"block_count", "embedding_length", "context_length"} {
		key := prefix + name
		v, ok := f.values[key]
		if !ok {
			return wrong(key, "missing")
		}
		if n, ok := f.Uint(key); !ok || n == 0 || n > 1<<31-1 {
			return wrong(key, "no sensible size (%s)", v.typ)
		}
	}
	return nil
}
