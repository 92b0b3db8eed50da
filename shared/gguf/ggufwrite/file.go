package ggufwrite

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/firstframe/firstframe/shared/gguf"
)

// File describes a file to be written. With the fields of Broken at zero the
// file is well-formed, as far as keys and tensors are.
type File struct {
	Keys    []Key
	Tensors []Tensor
	// Alignment of the tensor data; 0 means 32, GGUF's default. The key
	// general.alignment is the caller's.
	Alignment uint64
	Broken    Broken
}

// Broken overrides what a well-formed file would have.
type Broken struct {
	Magic       string // instead of GGUF
	Version     uint32 // instead of 3
	BigEndian   bool   // numbers of the header in the other byte order
	KeyCount    uint64 // instead of the number of keys
	TensorCount uint64 // instead of the number of tensors
}

// Key is a metadata key with its value.
type Key struct {
	Name  string
	Value gguf.Value
}

// Tensor is a row of the tensor table and its data.
type Tensor struct {
	Name string
	Dims []uint64
	Type gguf.TensorType
	// Offset overrides where the table says that the data starts; the data
	// itself is always packed in order.
	Offset *uint64
	// Bytes is how much Data writes.
	Bytes int64
	Data  func(io.Writer) error
}

// FromBytes takes a file apart so that it can be changed and written again.
func FromBytes(file []byte) (*File, error) {
	header, err := gguf.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	f := &File{Keys: CopyKeys(header, "")}
	f.Alignment, _ = header.Uint("general.alignment")
	for _, t := range header.Tensors() {
		f.Tensors = append(f.Tensors, Tensor{
			Name: t.Name, Dims: t.Dims, Type: t.Type, Bytes: t.Bytes,
			Data: Bytes(file[t.Offset : t.Offset+t.Bytes]),
		})
	}
	return f, nil
}

// CopyKeys gives the keys of a file that start with a prefix.
func CopyKeys(header *gguf.File, prefix string) []Key {
	var keys []Key
	for _, name := range header.Keys() {
		if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
			v, _ := header.Value(name)
			keys = append(keys, Key{name, v})
		}
	}
	return keys
}

// Bytes is the data of a tensor that is in memory.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// Find gives the key of a name, or nil.
func (f *File) Find(name string) *Key {
	for i := range f.Keys {
		if f.Keys[i].Name == name {
			return &f.Keys[i]
		}
	}
	return nil
}

// Set gives a key a value, adding the key when it is not there.
func (f *File) Set(k Key) {
	if old := f.Find(k.Name); old != nil {
		*old = k
		return
	}
	f.Keys = append(f.Keys, k)
}

// Remove takes a key out.
func (f *File) Remove(name string) {
	kept := f.Keys[:0]
	for _, k := range f.Keys {
		if k.Name != name {
			kept = append(kept, k)
		}
	}
	f.Keys = kept
}

// Encode writes the file to memory.
func (f *File) Encode() ([]byte, error) {
	size := int64(64 << 10)
	for _, t := range f.Tensors {
		size += t.Bytes + int64(f.Alignment) + 128
	}
	var b bytes.Buffer
	b.Grow(int(size))
	if err := f.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Write writes the file as a stream.
func (f *File) Write(w io.Writer) error {
	alignment := f.Alignment
	if alignment == 0 {
		alignment = 32
	}
	out := &counted{w: bufio.NewWriterSize(w, 1<<20)}
	header := f.header(alignment)
	if err := out.padded(Bytes(header), int64(len(header)), alignment); err != nil {
		return err
	}
	for _, t := range f.Tensors {
		if err := out.padded(t.Data, t.Bytes, alignment); err != nil {
			return fmt.Errorf("cannot write tensor %s: %w", t.Name, err)
		}
	}
	return out.w.Flush()
}

// counted counts what is written.
type counted struct {
	w *bufio.Writer
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// padded writes size bytes of data and zeros up to the alignment.
func (c *counted) padded(data func(io.Writer) error, size int64, alignment uint64) error {
	start := c.n
	if err := data(c); err != nil {
		return err
	}
	if c.n-start != size {
		return fmt.Errorf("the data has %d bytes instead of %d", c.n-start, size)
	}
	if over := uint64(size) % alignment; over != 0 {
		_, err := c.Write(make([]byte, alignment-over))
		return err
	}
	return nil
}

// header encodes everything up to the tensor data, without the padding.
func (f *File) header(alignment uint64) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if f.Broken.BigEndian {
		order = binary.BigEndian
	}
	magic, version := "GGUF", uint32(3)
	keys, tensors := uint64(len(f.Keys)), uint64(len(f.Tensors))
	if f.Broken.Magic != "" {
		magic = f.Broken.Magic
	}
	if f.Broken.Version != 0 {
		version = f.Broken.Version
	}
	if f.Broken.KeyCount != 0 {
		keys = f.Broken.KeyCount
	}
	if f.Broken.TensorCount != 0 {
		tensors = f.Broken.TensorCount
	}
	b := order.AppendUint32([]byte(magic), version)
	b = order.AppendUint64(b, tensors)
	b = order.AppendUint64(b, keys)
	for _, k := range f.Keys {
		b = appendString(order, b, k.Name)
		b = appendValue(order, b, k.Value)
	}
	next := uint64(0)
	for _, t := range f.Tensors {
		b = appendString(order, b, t.Name)
		b = order.AppendUint32(b, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			b = order.AppendUint64(b, d)
		}
		b = order.AppendUint32(b, uint32(t.Type))
		at := next
		if t.Offset != nil {
			at = *t.Offset
		}
		b = order.AppendUint64(b, at)
		next += (uint64(t.Bytes) + alignment - 1) / alignment * alignment
	}
	return b
}
