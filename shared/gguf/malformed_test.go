package gguf_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// malformed makes the wrong files out of a little model with a real tokenizer.
func malformed(t *testing.T) []ggufwrite.Case {
	t.Helper()
	header, err := read(storyteller(t, "q4_0"))
	if err != nil {
		t.Fatal(err)
	}
	m := ggufwrite.Model{Layers: 2, Embedding: 64, FeedForward: 64, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}
	file, err := m.Build()
	if err != nil {
		t.Fatal(err)
	}
	valid, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ggufwrite.Malformed(valid)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestMalformed(t *testing.T) {
	cases := malformed(t)
	seen := make(map[string]bool)
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		seen[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			f, err := read(c.Bytes)
			if c.Weights && err == nil {
				err = f.CheckWeights(t.Context(), c.Bytes)
			}
			if c.EngineOnly {
				if err != nil {
					t.Errorf("refused, although only the engine can tell: %v", err)
				}
				return
			}
			wantModelError(t, err, c.Want)
		})
	}
}

// wantModelError wants an error that says what is wrong with a model file.
func wantModelError(t *testing.T, err error, text string) {
	t.Helper()
	var e *shared.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error with %q", err, text)
	}
	if want := shared.KindModelFile; e.Kind != want {
		t.Errorf("the kind is %v", e.Kind)
	}
	if !strings.Contains(e.Error(), text) {
		t.Errorf("got %q, want it to contain %q", e, text)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	for _, c := range []struct {
		field string
		edit  func(*ggufwrite.File)
	}{
		{"llama.block_count", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.block_count", 0)) }},
		{"one", func(f *ggufwrite.File) { f.Tensors[0].Type = 99 }},
		{"general.file_type", func(f *ggufwrite.File) { f.Set(ggufwrite.Str("general.file_type", "F16")) }},
		{"tokenizer.chat_template", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("tokenizer.chat_template", 1)) }},
		{"llama.rope.freq_base", func(f *ggufwrite.File) { f.Set(ggufwrite.F32("llama.rope.freq_base", -1)) }},
		{"llama.expert_group_count", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.expert_group_count", 2)) }},
		{"llama.nextn_predict_layers", func(f *ggufwrite.File) { f.Set(ggufwrite.U32("llama.nextn_predict_layers", 3)) }},
		{"llama.attention.head_count", func(f *ggufwrite.File) { f.Set(ggufwrite.I32s("llama.attention.head_count", 4, -4, 4)) }},
		{"llama.attention.head_count", func(f *ggufwrite.File) { f.Set(ggufwrite.Strs("llama.attention.head_count", "4")) }},
	} {
		f := small()
		c.edit(f)
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		_, err = read(b)
		var e *shared.Error
		if !errors.As(err, &e) || e.Field != c.field {
			t.Errorf("%s: got %v with field %q", c.field, err, e.Field)
		}
	}
}

// TestMemoryIsBounded reads every malformed file and compares what was allocated
// for it with its size.
func TestMemoryIsBounded(t *testing.T) {
	const header = 32 << 10 // about that of the valid file
	for _, c := range malformed(t) {
		got := allocated(func() { _, _ = read(c.Bytes) })
		// Twice the header for the read-ahead, the vocabulary once more as a map.
		if limit := uint64(16*min(len(c.Bytes), 4*header) + 16<<10); got > limit {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.Name, got, len(c.Bytes))
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// sparse is a file of any size that has a start and is zero behind it.
type sparse struct{ start []byte }

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if at < int64(len(s.start)) {
		copy(p, s.start[at:])
	}
	return len(p), nil
}

func TestHugeFilesWithHugeClaims(t *testing.T) {
	const terabyte = 1 << 40
	count := func(f *ggufwrite.File, key string, n uint64) { f.Find(key).Value.Count = n }
	for _, c := range []struct {
		name, want string
		edit       func(*ggufwrite.File)
	}{
		{"keys", "at most 65536", func(f *ggufwrite.File) { f.Broken.KeyCount = 1 << 34 }},
		{"tensors", "at most 131072", func(f *ggufwrite.File) { f.Broken.TensorCount = 1 << 34 }},
		{"numbers", "larger than 256 MiB", func(f *ggufwrite.File) { count(f, "tokenizer.ggml.scores", 1<<37) }},
	} {
		f := small()
		c.edit(f)
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got := allocated(func() { _, err = gguf.Read(sparse{b}, terabyte) })
		wantModelError(t, err, c.want)
		if got > 1<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, got)
		}
	}
}

// failing is a file whose reads fail from a position on.
type failing struct {
	b    []byte
	from int64
	err  error
}

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) <= f.from {
		return copy(p, f.b[at:]), nil
	}
	return copy(p, f.b[min(at, f.from):f.from]), f.err
}

func TestReadErrors(t *testing.T) {
	b := storyteller(t, "q4_0")
	broken := errors.New("the disk is broken")
	_, err := gguf.Read(failing{b, 70, broken}, int64(len(b)))
	wantModelError(t, err, "cannot read file header at byte 70")
	if !errors.Is(err, broken) {
		t.Errorf("the cause is lost: %v", err)
	}
	_, err = gguf.Read(failing{b, 70, io.EOF}, int64(len(b)))
	wantModelError(t, err, fmt.Sprintf("at byte 70: the file ended here although its size was %d", len(b)))
}
