package gguf_test

import (
	"errors"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// FuzzRead feeds the reader any bytes. It must refuse with an error of the right
// kind or give a header that holds: tensors inside the file, accessors that
// work, and the same identity after the file was written anew.
func FuzzRead(f *testing.F) {
	tiny, err := small().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tiny)
	for _, n := range []int{0, 4, 30, len(tiny) / 2, len(tiny) - 1} {
		f.Add(tiny[:n])
	}
	for _, precision := range []string{"f16", "q4_0"} {
		b := storyteller(f, precision)
		header, err := read(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:header.DataOffset()])
		f.Add(b[:2000])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		header, err := read(b)
		if err != nil {
			var e *shared.Error
			if !errors.As(err, &e) || e.Kind != shared.KindModelFile && e.Kind != shared.KindUnsupported || e.Error() == "" {
				t.Fatalf("error without a kind of its own: %v", err)
			}
			return
		}
		checkHeader(t, header)
		// Weights may well be NaN here.
		if err := header.CheckWeights(t.Context(), b); err != nil && shared.KindOf(err) != shared.KindModelFile {
			t.Fatal(err)
		}
		parts, err := ggufwrite.FromBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		again := mustRead(t, parts)
		if header.Identity("sha256:0", spec()) != again.Identity("sha256:0", spec()) {
			t.Fatal("the identity changes when the file is written anew")
		}
	})
}

func checkHeader(t *testing.T, header *gguf.File) {
	t.Helper()
	end := header.DataOffset()
	for _, tensor := range header.Tensors() {
		if tensor.Offset < end || tensor.Bytes <= 0 || tensor.Offset+tensor.Bytes > header.Size() {
			t.Fatalf("tensor %q at %d with %d bytes, after %d, in a file of %d", tensor.Name, tensor.Offset, tensor.Bytes, end, header.Size())
		}
		end = tensor.Offset + tensor.Bytes
	}
	for _, key := range header.Keys() {
		v, ok := header.Value(key)
		if !ok {
			t.Fatalf("key %q has no value", key)
		}
		header.Uint(key)
		header.Int(key)
		header.Float(key)
		header.Bool(key)
		if list, ok := header.Strings(key); ok && uint64(len(list)) != v.Count {
			t.Fatalf("key %q: %d strings instead of %d", key, len(list), v.Count)
		}
		if list, ok := header.Ints(key); ok && uint64(len(list)) != v.Count {
			t.Fatalf("key %q: %d numbers instead of %d", key, len(list), v.Count)
		}
	}
	g := header.Geometry()
	if g.Layers <= 0 || g.Embedding <= 0 || g.Vocab <= 0 || header.TrainedTokens() <= 0 {
		t.Fatalf("no sensible geometry: %+v", g)
	}
	if !header.Identity("sha256:0", spec()).Complete() {
		t.Fatal("the identity is not complete")
	}
}
