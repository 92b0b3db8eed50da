package ggufwrite_test

import (
	"bytes"
	"math"
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

const storyteller = "../../../testdata/models/storyteller-q4_0.gguf"

func tokenizer(t *testing.T) []ggufwrite.Key {
	t.Helper()
	header, err := gguf.ReadFile(filepath.FromSlash(storyteller))
	if err != nil {
		t.Fatal(err)
	}
	return ggufwrite.CopyKeys(header, "tokenizer.")
}

// encode builds a model and reads its header and weights back.
func encode(t *testing.T, m ggufwrite.Model) ([]byte, *gguf.File) {
	t.Helper()
	file, err := m.Build()
	if err != nil {
		t.Fatal(err)
	}
	b, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	header, err := gguf.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := header.CheckWeights(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b, header
}

func TestModelsOfEachKind(t *testing.T) {
	keys := tokenizer(t)
	for _, c := range []struct {
		kind ggufwrite.Kind
		want gguf.Geometry
	}{
		{ggufwrite.Llama, gguf.Geometry{Architecture: "llama"}},
		{ggufwrite.Window, gguf.Geometry{Architecture: "gemma3", SlidingWindow: 64}},
		{ggufwrite.Recurrent, gguf.Geometry{Architecture: "mamba", Recurrent: true}},
	} {
		m := ggufwrite.Model{Kind: c.kind, Seed: 1, Tokenizer: keys}
		one, header := encode(t, m)
		g := header.Geometry()
		if g.Architecture != c.want.Architecture || g.SlidingWindow != c.want.SlidingWindow || g.Recurrent != c.want.Recurrent {
			t.Errorf("%s: %+v", c.kind, g)
		}
		if header.Precision() != "F16" || header.TrainedTokens() != 8192 {
			t.Errorf("%s: precision %s, trained for %d", c.kind, header.Precision(), header.TrainedTokens())
		}
		if again, _ := encode(t, m); !bytes.Equal(one, again) {
			t.Errorf("%s: the same description gives other bytes", c.kind)
		}
		m.Seed = 2
		if other, _ := encode(t, m); bytes.Equal(one, other) {
			t.Errorf("%s: the seed does not matter", c.kind)
		}
	}
}

func TestModelsMeetTheirTarget(t *testing.T) {
	keys := tokenizer(t)
	for _, target := range []int64{20e6, 300e6, 700e6, 2e9, 8e9} {
		file, err := ggufwrite.Model{TargetBytes: target, Tokenizer: keys}.Build()
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for _, tensor := range file.Tensors {
			n += tensor.Bytes
		}
		if off := math.Abs(float64(n-target)) / float64(target); off > 0.01 {
			t.Errorf("%d bytes instead of %d", n, target)
		}
	}
}

func TestImpossibleModels(t *testing.T) {
	keys := tokenizer(t)
	for name, m := range map[string]ggufwrite.Model{
		"no tokenizer":  {},
		"unknown kind":  {Kind: "oracle", Tokenizer: keys},
		"odd width":     {Embedding: 100, Tokenizer: keys},
		"odd heads":     {Embedding: 128, Heads: 3, Tokenizer: keys},
		"odd forward":   {FeedForward: 33, Tokenizer: keys},
		"odd KV heads":  {Embedding: 256, Heads: 4, HeadsKV: 3, Tokenizer: keys},
		"minus a layer": {Layers: -1, Tokenizer: keys},
	} {
		if _, err := m.Build(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestWeightsAreSmall compares the spread of generated weights with what is
// wanted: mean 0, deviation 0.02.
func TestWeightsAreSmall(t *testing.T) {
	b, header := encode(t, ggufwrite.Model{Seed: 7, Tokenizer: tokenizer(t)})
	var sum, squares, n float64
	for _, tensor := range header.Tensors() {
		if tensor.Type != gguf.F16 {
			continue
		}
		for at := tensor.Offset; at < tensor.Offset+tensor.Bytes; at += 2 {
			x := half(uint16(b[at]) | uint16(b[at+1])<<8)
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean) > 1e-3 || math.Abs(deviation-0.02) > 1e-3 {
		t.Errorf("mean %g, deviation %g", mean, deviation)
	}
}

// half decodes a finite number of half precision.
func half(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	x := math.Ldexp(fraction, -24)
	if exponent > 0 {
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 == 1 {
		return -x
	}
	return x
}

func TestRoundTrip(t *testing.T) {
	want, header := encode(t, ggufwrite.Model{Seed: 3, Tokenizer: tokenizer(t)})
	file, err := ggufwrite.FromBytes(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("a file that was taken apart is written differently")
	}
	if header.Size() != int64(len(want)) {
		t.Errorf("size %d of %d", header.Size(), len(want))
	}
}
