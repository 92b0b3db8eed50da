package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// ValueType is the type of a metadata value as the file encodes it.
type ValueType uint32

// The value types of GGUF.
const (
	Uint8   ValueType = 0
	Int8    ValueType = 1
	Uint16  ValueType = 2
	Int16   ValueType = 3
	Uint32  ValueType = 4
	Int32   ValueType = 5
	Float32 ValueType = 6
	Bool    ValueType = 7
	String  ValueType = 8
	Array   ValueType = 9
	Uint64  ValueType = 10
	Int64   ValueType = 11
	Float64 ValueType = 12
)

// String names the type.
func (t ValueType) String() string {
	names := [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Width is the encoded size of a scalar and 0 for what has no fixed size.
func (t ValueType) Width() uint64 {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16:
		return 2
	case Uint32, Int32, Float32:
		return 4
	case Uint64, Int64, Float64:
		return 8
	default:
		return 0
	}
}

// Value is one metadata value in its encoded form.
type Value struct {
	Type ValueType
	// Elem and Count describe an array.
	Elem  ValueType
	Count uint64
	// Raw is the payload without type, count and, for a string, without its
	// length. The strings of an array keep theirs. It must not be changed.
	Raw []byte
}

// value is a Value whose payload is still a place in the header.
type value struct {
	typ, elem ValueType
	count     uint64
	raw       span
}

// value reads one metadata value.
func (c *cursor) value() (value, error) {
	at := c.pos
	t, err := c.u32()
	if err != nil {
		return value{}, err
	}
	v := value{typ: ValueType(t)}
	switch {
	case v.typ == String:
		v.raw, err = c.str()
		return v, err
	case v.typ == Array:
		return c.array(v)
	case v.typ.Width() == 0:
		return value{}, c.fail(at, "unknown value type %d", t)
	}
	start, err := c.skip(v.typ.Width())
	if err != nil {
		return value{}, err
	}
	v.raw = span{start, c.pos}
	return v, c.checkBools(v)
}

// array reads the rest of an array. Arrays of arrays are refused, because the
// engine has no use for them and a file could nest them without end.
func (c *cursor) array(v value) (value, error) {
	at := c.pos
	t, err := c.u32()
	if err != nil {
		return value{}, err
	}
	v.elem = ValueType(t)
	if v.elem == Array {
		return value{}, c.fail(at, "an array of arrays, which is not allowed in a model file")
	}
	if v.elem != String && v.elem.Width() == 0 {
		return value{}, c.fail(at, "unknown array element type %d", t)
	}
	v.count, err = c.u64()
	if err != nil {
		return value{}, err
	}
	least := v.elem.Width()
	if v.elem == String {
		least = 8
	}
	if v.count > c.left()/least {
		return value{}, c.fail(at, "claims an array of %d elements, but only %d bytes follow", v.count, c.left())
	}
	start := c.pos
	if v.elem == String {
		for range v.count {
			if _, err := c.str(); err != nil {
				return value{}, err
			}
		}
	} else if _, err := c.skip(v.count * least); err != nil {
		return value{}, err
	}
	v.raw = span{start, c.pos}
	return v, c.checkBools(v)
}

// checkBools refuses a bool that is neither 0 nor 1, which native code may
// take for both.
func (c *cursor) checkBools(v value) error {
	if v.typ != Bool && v.elem != Bool {
		return nil
	}
	for i, b := range c.buf[v.raw.start:v.raw.end] {
		if b > 1 {
			return c.fail(v.raw.start+int64(i), "a bool with the value %d", b)
		}
	}
	return nil
}

// integer decodes one scalar of an integer type.
func integer(t ValueType, b []byte) (int64, bool) {
	switch t {
	case Uint8:
		return int64(b[0]), true
	case Int8:
		return int64(int8(b[0])), true
	case Uint16:
		return int64(binary.LittleEndian.Uint16(b)), true
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b))), true
	case Uint32:
		return int64(binary.LittleEndian.Uint32(b)), true
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case Uint64:
		u := binary.LittleEndian.Uint64(b)
		return int64(u), u <= math.MaxInt64
	case Int64:
		return int64(binary.LittleEndian.Uint64(b)), true
	default:
		return 0, false
	}
}

// float decodes one scalar of a floating point type.
func float(t ValueType, b []byte) (float64, bool) {
	switch t {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	default:
		return 0, false
	}
}
