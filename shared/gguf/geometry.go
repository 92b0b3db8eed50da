package gguf

import (
	"slices"
	"strconv"
	"strings"
)

// Geometry is what a model's metadata says of its shape. Sizes that the file
// does not give are 0.
type Geometry struct {
	Architecture string
	Layers       int // without those that only guess further ahead
	Embedding    int
	FeedForward  int
	// Heads and HeadsKV are the largest over the layers. When the layers differ
	// in either, HeadsKVPerLayer lists the KV heads of each, separated by commas.
	Heads           int
	HeadsKV         int
	HeadsKVPerLayer string
	HeadK           int // size of one key head
	HeadV           int // size of one value head
	RopeDims        int
	RopeBase        float64
	RopeScaling     string // type and factor, such as yarn:4
	// SlidingWindow is what the metadata says; some architectures have a window
	// without saying so, others ignore it, so the engine has the last word.
	SlidingWindow int
	Vocab         int
	Recurrent     bool // keeps a state that cannot be cut, and no KV cells
	Hybrid        bool // keeps both
}

// Geometry reads the shape from the metadata.
func (f *File) Geometry() Geometry {
	arch := f.Architecture()
	g := Geometry{
		Architecture:  arch,
		Layers:        f.archInt("block_count") - f.archInt("nextn_predict_layers"),
		Embedding:     f.archInt("embedding_length"),
		FeedForward:   f.archInt("feed_forward_length"),
		Heads:         f.archInt("attention.head_count"),
		RopeDims:      f.archInt("rope.dimension_count"),
		SlidingWindow: f.archInt("attention.sliding_window"),
		HeadK:         f.archInt("attention.key_length"),
		HeadV:         f.archInt("attention.value_length"),
		Vocab:         int(f.values[tokensKey].count),
		Recurrent:     memoryOf(arch) == memoryRecurrent,
		Hybrid:        memoryOf(arch) == memoryHybrid,
	}
	g.HeadsKV, g.HeadsKVPerLayer = f.headsKV(g)
	if g.HeadK == 0 && g.Heads > 0 {
		g.HeadK = g.Embedding / g.Heads
	}
	if g.HeadV == 0 && g.Heads > 0 {
		g.HeadV = g.Embedding / g.Heads
	}
	g.RopeBase, _ = f.Float(arch + ".rope.freq_base")
	g.RopeScaling = f.ropeScaling()
	return g
}

// TrainedTokens is the context length that the model was trained for.
func (f *File) TrainedTokens() int { return f.archInt("context_length") }

// archInt is a size of the architecture, which Read has found sensible.
func (f *File) archInt(name string) int {
	n, err := f.size31(f.Architecture() + "." + name)
	if err != nil {
		return 0
	}
	return int(n)
}

// headsKV gives the most KV heads of a layer and, when the layers are not
// alike, all of them. Without the key each head has its own.
func (f *File) headsKV(g Geometry) (most int, perLayer string) {
	const name = "attention.head_count"
	key := g.Architecture + "." + name
	if _, given := f.values[key+"_kv"]; given {
		key += "_kv"
		most = f.archInt(name + "_kv")
	} else {
		most = g.Heads
	}
	if f.uniform(g.Architecture+"."+name) && f.uniform(key) {
		return most, ""
	}
	list, ok := f.Ints(key)
	if !ok {
		list = slices.Repeat([]int64{int64(most)}, g.Layers)
	}
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.FormatInt(n, 10)
	}
	return most, strings.Join(words, ",")
}

// uniform reports whether a key has one value for all layers.
func (f *File) uniform(key string) bool {
	list, _ := f.Ints(key)
	for _, n := range list {
		if n != list[0] {
			return false
		}
	}
	return true
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
