package ggufwrite

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/firstframe/firstframe/shared/gguf"
)

// Str is a key with a string.
func Str(name, s string) Key {
	return Key{name, gguf.Value{Type: gguf.String, Raw: []byte(s)}}
}

// U32 is a key with a uint32, the type of most sizes.
func U32(name string, n uint32) Key {
	return Key{name, gguf.Value{Type: gguf.Uint32, Raw: binary.LittleEndian.AppendUint32(nil, n)}}
}

// U16 is a key with a uint16.
func U16(name string, n uint16) Key {
	return Key{name, gguf.Value{Type: gguf.Uint16, Raw: binary.LittleEndian.AppendUint16(nil, n)}}
}

// F32 is a key with a float32.
func F32(name string, x float32) Key {
	return Key{name, gguf.Value{Type: gguf.Float32, Raw: binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))}}
}

// Bool is a key with a bool.
func Bool(name string, x bool) Key {
	raw := []byte{0}
	if x {
		raw[0] = 1
	}
	return Key{name, gguf.Value{Type: gguf.Bool, Raw: raw}}
}

// Strs is a key with an array of strings.
func Strs(name string, list ...string) Key {
	var raw []byte
	for _, s := range list {
		raw = appendString(binary.LittleEndian, raw, s)
	}
	return Key{name, gguf.Value{Type: gguf.Array, Elem: gguf.String, Count: uint64(len(list)), Raw: raw}}
}

// I32s is a key with an array of int32.
func I32s(name string, list ...int32) Key {
	var raw []byte
	for _, n := range list {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
	}
	return Key{name, gguf.Value{Type: gguf.Array, Elem: gguf.Int32, Count: uint64(len(list)), Raw: raw}}
}

// F32s is a key with an array of float32.
func F32s(name string, list ...float32) Key {
	var raw []byte
	for _, x := range list {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return Key{name, gguf.Value{Type: gguf.Array, Elem: gguf.Float32, Count: uint64(len(list)), Raw: raw}}
}

func appendString(order binary.AppendByteOrder, b []byte, s string) []byte {
	return append(order.AppendUint64(b, uint64(len(s))), s...)
}

func appendValue(order binary.AppendByteOrder, b []byte, v gguf.Value) []byte {
	b = order.AppendUint32(b, uint32(v.Type))
	switch v.Type {
	case gguf.String:
		return appendString(order, b, string(v.Raw))
	case gguf.Array:
		b = order.AppendUint32(b, uint32(v.Elem))
		b = order.AppendUint64(b, v.Count)
		return append(b, ordered(order, v.Elem, v.Raw)...)
	default:
		return append(b, ordered(order, v.Type, v.Raw)...)
	}
}

// ordered gives little-endian elements in the wanted byte order.
func ordered(order binary.AppendByteOrder, t gguf.ValueType, raw []byte) []byte {
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	if t == gguf.String {
		for len(raw) > 0 {
			n := binary.LittleEndian.Uint64(raw)
			out = appendString(order, out, string(raw[8:8+n]))
			raw = raw[8+n:]
		}
		return out
	}
	for width := int(t.Width()); len(raw) >= width && width > 0; raw = raw[width:] {
		element := slices.Clone(raw[:width])
		slices.Reverse(element)
		out = append(out, element...)
	}
	return out
}
