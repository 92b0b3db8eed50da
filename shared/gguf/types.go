package gguf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// TensorType is the encoding of a tensor's weights.
type TensorType uint32

// The tensor types that are named in code, here or elsewhere.
const (
	F32       TensorType = 0
	F16       TensorType = 1
	Q4_0      TensorType = 2
	Q8_0      TensorType = 8
	BF16      TensorType = 30
	typeQ8_1  TensorType = 9
	typeQ8_K  TensorType = 15
	typeI8    TensorType = 24
	typeI16   TensorType = 25
	typeI32   TensorType = 26
	typeI64   TensorType = 27
	typeF64   TensorType = 28
	typeIQ1_M TensorType = 29
	typeMXFP4 TensorType = 39
	typeEnd   TensorType = 43
)

// layout is how a type packs weights: block weights in size bytes. Types that
// the engine has removed have none.
type layout struct {
	name        string
	block, size uint64
}

// tensorLayouts is indexed by type number. The figures are those that engine
// 0.5.0 reports of itself.
func tensorLayouts() [typeEnd]layout {
	return [typeEnd]layout{
		0: {"F32", 1, 4}, 1: {"F16", 1, 2}, 2: {"Q4_0", 32, 18}, 3: {"Q4_1", 32, 20},
		6: {"Q5_0", 32, 22}, 7: {"Q5_1", 32, 24}, 8: {"Q8_0", 32, 34}, 9: {"Q8_1", 32, 36},
		10: {"Q2_K", 256, 84}, 11: {"Q3_K", 256, 110}, 12: {"Q4_K", 256, 144}, 13: {"Q5_K", 256, 176},
		14: {"Q6_K", 256, 210}, 15: {"Q8_K", 256, 292}, 16: {"IQ2_XXS", 256, 66}, 17: {"IQ2_XS", 256, 74},
		18: {"IQ3_XXS", 256, 98}, 19: {"IQ1_S", 256, 50}, 20: {"IQ4_NL", 32, 18}, 21: {"IQ3_S", 256, 110},
		22: {"IQ2_S", 256, 82}, 23: {"IQ4_XS", 256, 136}, 24: {"I8", 1, 1}, 25: {"I16", 1, 2},
		26: {"I32", 1, 4}, 27: {"I64", 1, 8}, 28: {"F64", 1, 8}, 29: {"IQ1_M", 256, 56},
		30: {"BF16", 1, 2}, 34: {"TQ1_0", 256, 54}, 35: {"TQ2_0", 256, 66}, 39: {"MXFP4", 32, 17},
		40: {"NVFP4", 64, 36}, 41: {"Q1_0", 128, 18}, 42: {"Q2_0", 64, 18},
	}
}

// layout looks a type up; ok is false for unknown and removed types.
func (t TensorType) layout() (l layout, ok bool) {
	if t >= typeEnd {
		return layout{}, false
	}
	l = tensorLayouts()[t]
	return l, l.block != 0
}

// String is the type's name in the engine's tables, such as Q4_K.
func (t TensorType) String() string {
	if l, ok := t.layout(); ok {
		return l.name
	}
	return "type " + strconv.FormatUint(uint64(t), 10)
}

// Bytes is how much memory a tensor of this type and shape takes.
func (t TensorType) Bytes(dims []uint64) (int64, error) {
	l, ok := t.layout()
	if !ok {
		return 0, fmt.Errorf("unknown tensor type %d", uint32(t))
	}
	elements, row := uint64(1), uint64(1)
	for i, d := range dims {
		if d == 0 {
			return 0, errors.New("it has no elements")
		}
		if d > math.MaxInt64/elements {
			return 0, errors.New("more elements than can be counted")
		}
		elements *= d
		if i == 0 {
			row = d
		}
	}
	if row%l.block != 0 {
		return 0, fmt.Errorf("rows of %d weights, which is no multiple of the %d in a block of %s", row, l.block, l.name)
	}
	if elements/l.block > math.MaxInt64/l.size {
		return 0, errors.New("more bytes than can be counted")
	}
	return int64(elements / l.block * l.size), nil
}

// fileTypeName names general.file_type, the mix of tensor types that a quantizer
// was asked for. Numbers that the engine has given up are absent.
func fileTypeName(number int64) (string, bool) {
	names := map[int64]string{
		0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
		11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
		18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
		25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
		32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
	}
	name, ok := names[number]
	return name, ok
}
