package ggufwrite

import (
	"fmt"

	"github.com/firstframe/firstframe/shared/gguf"
)

// Split cuts a file into parts as the engine's own tool does: the first one has
// all keys, and with headerOnly no tensors.
func (f *File) Split(parts int, headerOnly bool) []*File {
	list := make([]*File, parts)
	for i := range list {
		list[i] = &File{Keys: []Key{U16("split.no", uint16(i)), U16("split.count", uint16(parts)), I32("split.tensors.count", int32(len(f.Tensors)))}}
	}
	list[0].Keys = append(list[0].Keys, f.Keys...)
	list[0].Alignment = f.Alignment
	with := list
	if headerOnly {
		with = list[1:]
	}
	for i, t := range f.Tensors {
		part := with[i*len(with)/len(f.Tensors)]
		part.Tensors = append(part.Tensors, t)
	}
	return list
}

// PartName is the name of a part of a split model, counted from 0.
func PartName(base string, part, parts int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", base, part+1, parts)
}

// I32 is a key with an int32.
func I32(name string, n int32) Key {
	k := U32(name, uint32(n))
	k.Value.Type = gguf.Int32
	return k
}
