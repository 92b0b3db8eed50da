package gguf

import (
	"encoding/binary"
	"slices"
)

// Keys lists the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Value gives a key's value in its encoded form.
func (f *File) Value(key string) (Value, bool) {
	v, ok := f.values[key]
	if !ok {
		return Value{}, false
	}
	return Value{Type: v.typ, Elem: v.elem, Count: v.count, Raw: f.header[v.raw.start:v.raw.end]}, true
}

// String is the key's string, or empty when the key is absent or no string.
func (f *File) String(key string) string {
	v, _ := f.Value(key)
	if v.Type != String {
		return ""
	}
	return string(v.Raw)
}

// Uint is the key's value when it is an integer that is not negative.
func (f *File) Uint(key string) (uint64, bool) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false
	}
	if v.Type == Uint64 {
		return binary.LittleEndian.Uint64(v.Raw), true
	}
	n, ok := integer(v.Type, v.Raw)
	return uint64(n), ok && n >= 0
}

// Int is the key's value when it is an integer of 64 bits with sign.
func (f *File) Int(key string) (int64, bool) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false
	}
	return integer(v.Type, v.Raw)
}

// Float is the key's value when it is a floating point number.
func (f *File) Float(key string) (float64, bool) {
	v, ok := f.Value(key)
	if !ok {
		return 0, false
	}
	return float(v.Type, v.Raw)
}

// Bool is the key's value when it is a bool.
func (f *File) Bool(key string) (value, ok bool) {
	v, ok := f.Value(key)
	if !ok || v.Type != Bool {
		return false, false
	}
	return v.Raw[0] == 1, true
}

// Strings is the key's array of strings.
func (f *File) Strings(key string) ([]string, bool) {
	v, ok := f.Value(key)
	if !ok || v.Type != Array || v.Elem != String {
		return nil, false
	}
	list := make([]string, 0, v.Count)
	for rest := v.Raw; len(rest) > 0; {
		n := 8 + binary.LittleEndian.Uint64(rest)
		list = append(list, string(rest[8:n]))
		rest = rest[n:]
	}
	return list, true
}

// Ints is the key's array of integers.
func (f *File) Ints(key string) ([]int64, bool) {
	v, ok := f.Value(key)
	if !ok || v.Type != Array {
		return nil, false
	}
	width := v.Elem.Width()
	list := make([]int64, 0, v.Count)
	for i := range v.Count {
		if width == 0 {
			return nil, false
		}
		n, ok := integer(v.Elem, v.Raw[i*width:])
		if !ok {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}
