package gguf

import "encoding/binary"

// rule says how a value that is no finite number looks in one tensor type:
// with all bits of its exponent set.
type rule struct {
	what string
	find func(data []byte) int // where the first one is, or -1
}

// ruleOf gives a type's rule. The places of the scales in their blocks are
// those where the engine's own checker refuses a NaN.
func ruleOf(t TensorType) (rule, bool) {
	l, _ := t.layout()
	scales := func(offset int, masks ...uint32) (rule, bool) {
		return rule{"the scale of a block", blocks{int(l.size), offset, masks[0], masks[len(masks)-1]}.find}, true
	}
	const (
		low  = 0x7c00 // the exponent of an F16 in the lower half of 32 bits
		high = low << 16
	)
	switch l.name {
	case "F32":
		return rule{"a weight", row{0x7f800000_7f800000, 0x00800000_00800000, 4}.find}, true
	case "F16":
		return rule{"a weight", row{0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400, 2}.find}, true
	case "BF16":
		return rule{"a weight", row{0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 2}.find}, true
	case "Q4_0", "Q5_0", "Q8_0", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ4_NL", "IQ4_XS", "Q1_0", "Q2_0":
		return scales(0, low)
	case "Q4_1", "Q5_1", "Q4_K", "Q5_K":
		return scales(0, low, high)
	case "Q2_K":
		return scales(80, low, high)
	case "Q3_K":
		return scales(106, high)
	case "Q6_K":
		return scales(206, high)
	case "TQ1_0":
		return scales(50, high)
	case "TQ2_0":
		return scales(62, high)
	case "IQ1_M": // the scale is spread over the upper four bits of four numbers
		return scales(52, 0x7000_c000)
	case "MXFP4": // an exponent of 8 bits
		return scales(0, 0xff)
	default:
		return rule{}, false
	}
}

// blocks looks at 32 bits at an offset in each block of a size. They hold a
// bad scale when all bits of either mask are set.
type blocks struct {
	size, offset  int
	first, second uint32
}

func (b blocks) find(data []byte) int {
	for at := b.offset; at+4 <= len(data); at += b.size {
		bits := binary.LittleEndian.Uint32(data[at:])
		if bits&b.first == b.first || bits&b.second == b.second {
			return at - b.offset
		}
	}
	return -1
}

// row looks at numbers without gaps, several at once: adding the lowest bit of
// an exponent to it carries into the bit above only when all its bits are set.
type row struct {
	exponents, ones uint64
	width           int
}

func (r row) find(data []byte) int {
	const stride = 32
	carries := r.exponents + r.ones
	at := 0
	for ; at+stride <= len(data); at += stride {
		d := data[at : at+stride : at+stride]
		full := (binary.LittleEndian.Uint64(d) & r.exponents) + r.ones
		full |= (binary.LittleEndian.Uint64(d[8:]) & r.exponents) + r.ones
		full |= (binary.LittleEndian.Uint64(d[16:]) & r.exponents) + r.ones
		full |= (binary.LittleEndian.Uint64(d[24:]) & r.exponents) + r.ones
		if full&carries != 0 {
			break
		}
	}
	for ; at < len(data); at += r.width {
		var last [8]byte
		copy(last[:r.width], data[at:])
		if ((binary.LittleEndian.Uint64(last[:])&r.exponents)+r.ones)&carries != 0 {
			return at
		}
	}
	return -1
}
