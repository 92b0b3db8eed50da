package llamacpp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
	"github.com/firstframe/firstframe/slotworker"
)

// adapterFile writes a random adapter for a storyteller, changed as told.
func adapterFile(t testing.TB, precision string, change func(*ggufwrite.File)) string {
	t.Helper()
	data := modelBytes(t, precision)
	header, err := gguf.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ggufwrite.Adapter{Base: header, Alpha: 2000, Seed: 1}.Build()
	if err != nil {
		t.Fatal(err)
	}
	change(f)
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func unchanged(*ggufwrite.File) {}

// An adapter changes the logits, at scale in every context; its opposite takes it back.
func TestAdapterIsApplied(t *testing.T) {
	for _, precision := range []string{"q8_0", "q4_0"} {
		t.Run(precision, func(t *testing.T) {
			path := adapterFile(t, precision, unchanged)
			logits := func(scales ...float32) []float32 {
				req := slotworker.LoadRequest{Path: modelPath(precision)}
				for _, s := range scales {
					req.Adapters = append(req.Adapters, slotworker.AdapterSource{Path: path, Name: "tale", Scale: s})
				}
				m := load(t, req)
				if len(scales) > 0 && m.Info().OwnBytes == 0 {
					t.Error("the adapter takes no memory")
				}
				rows := run(0, 0, tokenize(t, m, fox)...)
				first := last(t, newContext(t, m, small()), rows)
				if again := last(t, newContext(t, m, small()), rows); !slices.Equal(first, again) {
					t.Error("two contexts of one model compute different logits")
				}
				return first
			}
			plain, one, half, both := logits(), logits(1), logits(0.5), logits(1, -1)
			if d := distance(plain, one); d < 1 {
				t.Errorf("the adapter changes the logits by %g", d)
			}
			if distance(one, half) == 0 || distance(plain, half) == 0 {
				t.Error("the scale does not count")
			}
			if d := distance(plain, both); d > 0.5 {
				t.Errorf("an adapter and its opposite leave %g", d)
			}
		})
	}
}

func distance(a, b []float32) float64 {
	var most float64
	for i := range a {
		most = max(most, float64(a[i]-b[i]), float64(b[i]-a[i]))
	}
	return most
}

// What the engine is told to load is checked before; it still must not crash
// over a file that is not right.
func TestEngineRefusesBadAdapters(t *testing.T) {
	for name, path := range map[string]string{
		"none":    filepath.Join(t.TempDir(), "none"),
		"magic":   adapterFile(t, "q8_0", func(f *ggufwrite.File) { f.Broken.Magic = "GGML" }),
		"a model": modelPath("q8_0"),
		"other":   adapterFile(t, "q8_0", func(f *ggufwrite.File) { f.Set(ggufwrite.Str("general.architecture", "gemma3")) }),
		"half":    adapterFile(t, "q8_0", func(f *ggufwrite.File) { f.Tensors = f.Tensors[1:] }),
		"no layer": adapterFile(t, "q8_0", func(f *ggufwrite.File) {
			for i := range f.Tensors {
				f.Tensors[i].Name = strings.Replace(f.Tensors[i].Name, "blk.0", "blk.77", 1)
			}
		}),
		"zero": "a\x00b",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := engine(t).Load(slotworker.LoadRequest{Path: modelPath("q8_0"), Adapters: []slotworker.AdapterSource{{Path: path, Name: "tale", Scale: 1}}})
			if err == nil {
				m.Close()
				t.Fatal("it was loaded")
			}
			if kind := shared.KindOf(err); kind != shared.KindModelFile && kind != shared.KindInvalid {
				t.Errorf("kind %v: %v", kind, err)
			}
		})
	}
}
