package gguf

import (
	"math"
	"slices"
	"strings"
)

// Limits at which the engine aborts instead of refusing.
const (
	maxLayers  = 512
	maxExperts = 1024
)

// checkGeometry refuses sizes that nobody should compute with and values that
// make the engine abort or compute nothing but NaN. That the sizes fit the
// tensors is left to the engine, which knows each architecture's tensors.
func (f *File) checkGeometry() error {
	prefix := f.Architecture() + "."
	for _, key := range f.keys {
		if strings.HasPrefix(key, prefix) {
			if err := f.checkFloats(key); err != nil {
				return err
			}
		}
	}
	sizes := make(map[string]int64)
	for _, name := range []string{
		"block_count", "embedding_length", "context_length", "feed_forward_length", "vocab_size", "nextn_predict_layers",
		"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
		"attention.sliding_window", "rope.dimension_count",
		"expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count",
	} {
		n, err := f.size31(prefix + name)
		if err != nil {
			return err
		}
		sizes[name] = n
	}
	for _, name := range []string{"block_count", "embedding_length", "context_length"} {
		if sizes[name] == 0 {
			return wrong(prefix+name, "missing or zero")
		}
	}
	layers, nextn := sizes["block_count"], sizes["nextn_predict_layers"]
	switch {
	case layers > maxLayers:
		return wrong(prefix+"block_count", "%d layers; the engine takes at most %d", layers, maxLayers)
	case nextn >= layers:
		return wrong(prefix+"nextn_predict_layers", "%d of %d layers", nextn, layers)
	}
	if err := checkExperts(prefix, sizes); err != nil {
		return err
	}
	return f.checkRope(prefix, sizes)
}

// checkExperts wants the counts of experts and of their groups to fit together.
func checkExperts(prefix string, sizes map[string]int64) error {
	experts, used := sizes["expert_count"], sizes["expert_used_count"]
	groups, groupsUsed := sizes["expert_group_count"], sizes["expert_group_used_count"]
	switch {
	case experts > maxExperts:
		return wrong(prefix+"expert_count", "%d experts; the engine takes at most %d", experts, maxExperts)
	case used > experts || used == 0 && experts > 0:
		return wrong(prefix+"expert_used_count", "%d of %d experts used", used, experts)
	case groups > 0 && groups >= experts || groups > 1 && experts%groups != 0:
		return wrong(prefix+"expert_group_count", "%d groups of %d experts", groups, experts)
	case groups > 1 && (groupsUsed == 0 || groupsUsed >= groups):
		return wrong(prefix+"expert_group_used_count", "%d of %d groups used", groupsUsed, groups)
	}
	return nil
}

// checkRope wants an even number of rotated dimensions that fit into a head.
// With none at all the engine computes for ever.
func (f *File) checkRope(prefix string, sizes map[string]int64) error {
	key := prefix + "rope.dimension_count"
	if _, given := f.values[key]; given {
		dims, head := sizes["rope.dimension_count"], sizes["attention.key_length"]
		if head == 0 && sizes["attention.head_count"] > 0 {
			head = sizes["embedding_length"] / sizes["attention.head_count"]
		}
		switch {
		case dims == 0 && memoryOf(f.Architecture()) == memoryAttention:
			return wrong(key, "no dimension is rotated")
		case dims%2 != 0:
			return wrong(key, "the number %d of rotated dimensions is odd", dims)
		case head > 0 && dims > head:
			return wrong(key, "%d dimensions are rotated, but a head has only %d", dims, head)
		}
	}
	key = prefix + "rope.scaling.type"
	if _, given := f.values[key]; given {
		known := []string{"none", "linear", "yarn", "longrope"}
		if kind := f.String(key); !slices.Contains(known, kind) {
			return wrong(key, "the scaling %q is not one of %s", clip(kind), strings.Join(known, ", "))
		}
	}
	return nil
}

// size31 reads a size, or the largest of a list with one for each layer. It is
// 0 when the key is absent, and never more than 31 bits: the engine counts in
// ints of 32 bits.
func (f *File) size31(key string) (int64, error) {
	v, ok := f.Value(key)
	if !ok {
		return 0, nil
	}
	list := []int64{0}
	if v.Type == Array {
		if list, ok = f.Ints(key); !ok {
			return 0, wrong(key, "a list of %s instead of sizes", v.Elem)
		}
	} else if list[0], ok = f.Int(key); !ok {
		return 0, wrong(key, "%s instead of a size", v.Type)
	}
	most := int64(0)
	for _, n := range list {
		if n < 0 || n > math.MaxInt32 {
			return 0, wrong(key, "%d is not a sensible size", n)
		}
		most = max(most, n)
	}
	return most, nil
}

// checkFloats wants every number of the architecture finite, and those that
// the engine takes a root or a power of not negative.
func (f *File) checkFloats(key string) error {
	v, _ := f.Value(key)
	typ := v.Type
	if typ == Array {
		typ = v.Elem
	}
	if typ != Float32 && typ != Float64 {
		return nil
	}
	positive := strings.HasSuffix(key, "epsilon") || strings.Contains(key, ".rope.freq_base")
	for raw := v.Raw; len(raw) > 0; raw = raw[typ.Width():] {
		x, _ := float(typ, raw)
		if math.IsNaN(x) || math.IsInf(x, 0) || positive && x < 0 {
			return wrong(key, "%g is not a sensible value", x)
		}
	}
	return nil
}
