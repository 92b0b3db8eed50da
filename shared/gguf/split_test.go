package gguf_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// writeParts writes a storyteller in parts and gives their paths.
func writeParts(t testing.TB, count int, headerOnly bool, change func([]*ggufwrite.File)) []string {
	t.Helper()
	whole, err := ggufwrite.FromBytes(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	parts := whole.Split(count, headerOnly)
	change(parts)
	base := filepath.Join(t.TempDir(), "story")
	var paths []string
	for i, p := range parts {
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, ggufwrite.PartName(base, i, count))
		if err := os.WriteFile(paths[i], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func asTheyAre([]*ggufwrite.File) {}

func TestSplitModelIsOneModel(t *testing.T) {
	whole, err := read(storyteller(t, "q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, headerOnly := range []bool{false, true} {
		paths := writeParts(t, 3, headerOnly, asTheyAre)
		f, err := gguf.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Paths(); strings.Join(got, " ") != strings.Join(paths, " ") {
			t.Errorf("paths %q", got)
		}
		a, b := whole.Identity("sha256:0", spec()), f.Identity("sha256:0", spec())
		if a != b || f.WeightBytes() != whole.WeightBytes() || f.DeviceNeed(spec()) != whole.DeviceNeed(spec()) {
			t.Errorf("the parts are %v, the whole %v", b, a)
		}
		var data [][]byte
		var size int64
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			data, size = append(data, b), size+int64(len(b))
		}
		if f.Size() != size {
			t.Errorf("%d bytes of %d", f.Size(), size)
		}
		if err := f.CheckWeights(t.Context(), data...); err != nil {
			t.Error(err)
		}
		last := f.Tensors()[len(f.Tensors())-1]
		copy(data[last.Part][last.Offset:], "\xff\xff\xff\xff")
		wantModelError(t, f.CheckWeights(t.Context(), data...), last.Name)

		m, err := gguf.OpenParts(paths...)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		joined, err := io.ReadAll(m.Reader())
		if err != nil || int64(len(joined)) != size || m.Size != size {
			t.Errorf("the parts in order have %d bytes of %d, %v", len(joined), size, err)
		}
	}
}

func TestBadSplits(t *testing.T) {
	set := func(part int, k ggufwrite.Key) func([]*ggufwrite.File) {
		return func(p []*ggufwrite.File) { p[part].Set(k) }
	}
	for _, c := range []struct {
		name, want string
		change     func([]*ggufwrite.File)
	}{
		{"number of another type", "uint32 instead of uint16", set(1, ggufwrite.U32("split.no", 1))},
		{"count of another type", "uint32 instead of uint16", set(0, ggufwrite.U32("split.count", 3))},
		{"another number", "part 2 of 3: metadata key \"split.no\": it says that it is part 3 of 3", set(1, ggufwrite.U16("split.no", 2))},
		{"another count", "it says that it is part 3 of 4", set(2, ggufwrite.U16("split.count", 4))},
		{"no number", "missing in a split model", func(p []*ggufwrite.File) { p[2].Remove("split.no") }},
		{"too few tensors", "speaks of", func(p []*ggufwrite.File) { p[1].Tensors = p[1].Tensors[1:] }},
		{"no count of tensors", "speaks of", func(p []*ggufwrite.File) { p[0].Remove("split.tensors.count") }},
		{"a tensor twice", "in an earlier part, too", func(p []*ggufwrite.File) { p[1].Tensors[0] = p[0].Tensors[0] }},
		{"no tensors at all", "speaks of", func(p []*ggufwrite.File) {
			for _, part := range p {
				part.Tensors = nil
			}
			p[0].Set(ggufwrite.I32("split.tensors.count", 0))
		}},
		{"a part of another format", "part 3 of 3: file header at byte 0", func(p []*ggufwrite.File) { p[2].Broken.Magic = "GGML" }},
		{"another number of parts", "-00001-of-00004.gguf", set(0, ggufwrite.U16("split.count", 4))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := gguf.ReadFile(writeParts(t, 3, false, c.change)[0])
			wantModelError(t, err, c.want)
		})
	}
	paths := writeParts(t, 3, false, asTheyAre)
	_, err := gguf.ReadFile(paths[1])
	wantModelError(t, err, "part 2 of 3 of a split model; its path names the first part")
	other := filepath.Join(filepath.Dir(paths[0]), "other.gguf")
	if err := os.Link(paths[0], other); err != nil {
		t.Fatal(err)
	}
	_, err = gguf.ReadFile(other)
	wantModelError(t, err, "first of 3 parts")
	if err := os.Remove(paths[2]); err != nil {
		t.Fatal(err)
	}
	_, err = gguf.ReadFile(paths[0])
	wantModelError(t, err, "part 3 of 3 of the model cannot be opened, "+paths[2])
}
