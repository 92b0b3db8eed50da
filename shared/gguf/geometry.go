package gguf

import (
	"strconv"
	"strings"
)

// Geometry is what a model's metadata says of its shape. Sizes that the file
// does not give are 0.
type Geometry struct {
	Architecture string
	Layers       int
	Embedding    int
	FeedForward  int
	// Heads and HeadsKV are the largest over the layers; HeadsKVPerLayer lists
	// them, separated by commas, when the layers differ.
	Heads           int
	HeadsKV         int
	HeadsKVPerLayer string
	HeadK           int // size of one key head
	HeadV           int // size of one value head
	RopeDims        int
	RopeBase        float64
	RopeScaling     string // type and factor, such as yarn:4
	SlidingWindow   int    // 0 when attention is full
	Vocab           int
	// Recurrent is set when the metadata describes recurrent state, alone or
	// beside attention. The engine has the last word.
	Recurrent bool
}

// Geometry reads the shape from the metadata.
func (f *File) Geometry() Geometry {
	arch := f.Architecture()
	g := Geometry{
		Architecture:  arch,
		Layers:        f.archInt("block_count"),
		Embedding:     f.archInt("embedding_length"),
		FeedForward:   f.archInt("feed_forward_length"),
		Heads:         f.archInt("attention.head_count"),
		RopeDims:      f.archInt("rope.dimension_count"),
		SlidingWindow: f.archInt("attention.sliding_window"),
		HeadK:         f.archInt("attention.key_length"),
		HeadV:         f.archInt("attention.value_length"),
		Vocab:         int(f.values["tokenizer.ggml.tokens"].count),
	}
	g.HeadsKV, g.HeadsKVPerLayer = f.headsKV(g.Heads)
	if g.HeadK == 0 && g.Heads > 0 {
		g.HeadK = g.Embedding / g.Heads
	}
	if g.HeadV == 0 && g.Heads > 0 {
		g.HeadV = g.Embedding / g.Heads
	}
	g.RopeBase, _ = f.Float(arch + ".rope.freq_base")
	g.RopeScaling = f.ropeScaling()
	for _, key := range f.keys {
		rest, ok := strings.CutPrefix(key, arch+".")
		if ok && (strings.HasPrefix(rest, "ssm.") || strings.HasPrefix(rest, "wkv.") || strings.HasPrefix(rest, "kda.") || strings.HasPrefix(rest, "shortconv.")) {
			g.Recurrent = true
		}
	}
	return g
}

// TrainedTokens is the context length that the model was trained for.
func (f *File) TrainedTokens() int { return f.archInt("context_length") }

// archInt is a size of the architecture: a number or, for a list with one
// number per layer, the largest. What does not fit 31 bits counts as absent.
func (f *File) archInt(name string) int {
	key := f.Architecture() + "." + name
	if n, ok := f.Uint(key); ok && n < 1<<31 {
		return int(n)
	}
	most := int64(0)
	list, _ := f.Ints(key)
	for _, n := range list {
		if n < 1<<31 {
			most = max(most, n)
		}
	}
	return int(most)
}

func (f *File) headsKV(heads int) (most int, perLayer string) {
	const name = "attention.head_count_kv"
	most = f.archInt(name)
	list, ok := f.Ints(f.Architecture() + "." + name)
	if !ok {
		if most == 0 {
			most = heads
		}
		return most, ""
	}
	uniform := true
	words := make([]string, len(list))
	for i, n := range list {
		uniform = uniform && n == list[0]
		words[i] = strconv.FormatInt(n, 10)
	}
	if uniform {
		return most, ""
	}
	return most, strings.Join(words, ",")
}

func (f *File) ropeScaling() string {
	prefix := f.Architecture() + ".rope.scaling."
	kind := f.String(prefix + "type")
	factor, ok := f.Float(prefix + "factor")
	if !ok {
		return kind
	}
	return kind + ":" + strconv.FormatFloat(factor, 'g', -1, 64)
}
