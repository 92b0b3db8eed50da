package gguf

import (
	"bytes"
	"strings"
)

const (
	maxTensors = 1 << 17
	maxName    = 63 // the engine keeps names in 64 bytes with a final zero
	maxDims    = 4
	// expertTable ends the name of the table from token to expert.
	expertTable = ".ffn_gate_tid2eid.weight"
)

// Tensor is one row of the tensor table.
type Tensor struct {
	Name string
	Type TensorType
	Dims []uint64 // the fastest running one first
	// Part is the number of the file that has the data, and Offset where it starts,
	// counted from the start of that file.
	Part   int
	Offset int64
	Bytes  int64
	// rel is the offset as the table gives it, at where the table gives it.
	rel uint64
	at  int64
}

// tensorTable reads the table and checks each row by itself.
func (c *cursor) tensorTable(count uint64) ([]Tensor, error) {
	var tensors []Tensor
	seen := make(map[string]bool)
	for i := range count {
		c.where, c.field = "tensor table", ""
		t, err := c.tensor(i)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, c.fail(t.at, "tensor %q is listed twice", t.Name)
		}
		seen[t.Name] = true
		tensors = append(tensors, t)
	}
	return tensors, nil
}

func (c *cursor) tensor(index uint64) (Tensor, error) {
	t := Tensor{at: c.pos}
	name, err := c.str()
	if err != nil {
		return t, err
	}
	raw := c.buf[name.start:name.end]
	switch {
	case len(raw) == 0:
		return t, c.fail(t.at, "tensor number %d has no name", index)
	case len(raw) > maxName:
		return t, c.fail(t.at, "tensor number %d has a name of %d bytes; at most %d are allowed", index, len(raw), maxName)
	case bytes.IndexByte(raw, 0) >= 0:
		return t, c.fail(t.at, "tensor name %q contains a zero byte", raw)
	}
	t.Name = string(raw)
	c.field = t.Name
	dims, err := c.u32()
	if err != nil {
		return t, err
	}
	if dims > maxDims {
		return t, c.fail(t.at, "tensor %q has %d dimensions; at most %d are allowed", t.Name, dims, maxDims)
	}
	for range dims {
		d, err := c.u64()
		if err != nil {
			return t, err
		}
		t.Dims = append(t.Dims, d)
	}
	typ, err := c.u32()
	if err != nil {
		return t, err
	}
	t.Type = TensorType(typ)
	if t.rel, err = c.u64(); err != nil {
		return t, err
	}
	return t, c.measure(&t)
}

// measure works out how many bytes a tensor's data takes.
func (c *cursor) measure(t *Tensor) error {
	n, err := t.Type.Bytes(t.Dims)
	if err != nil {
		return c.fail(t.at, "tensor %q of shape %v: %v", t.Name, t.Dims, err)
	}
	t.Bytes = n
	return c.usable(t)
}

// usable refuses types that are well-formed but make the engine abort or read
// wild addresses as soon as it computes: intermediate results, doubles, integers
// other than the one table that consists of them, and vectors that are not F32.
func (c *cursor) usable(t *Tensor) error {
	switch t.Type {
	case typeQ8_1, typeQ8_K, typeF64, typeI8, typeI16, typeI64:
		return c.fail(t.at, "tensor %q has the type %s, which the engine cannot use for weights", t.Name, t.Type)
	case typeI32:
		if !strings.HasSuffix(t.Name, expertTable) {
			return c.fail(t.at, "tensor %q has the type %s, which the engine cannot use for weights", t.Name, t.Type)
		}
	case F32:
	default:
		if len(t.Dims) < 2 {
			return c.fail(t.at, "tensor %q is a vector of type %s, but the engine needs vectors in F32", t.Name, t.Type)
		}
	}
	return nil
}

// place checks where the tensors lie. Like the engine it wants them packed in
// the order of the table, each padded to the alignment: then none can overlap.
func (c *cursor) place(tensors []Tensor, dataOffset, alignment int64) error {
	c.where = "tensor data"
	room := uint64(max(c.size-dataOffset, 0))
	next := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		c.field = t.Name
		switch {
		case t.rel%uint64(alignment) != 0:
			return c.fail(t.at, "tensor %q starts at offset %d, which is not aligned to %d", t.Name, t.rel, alignment)
		case t.rel > room || uint64(t.Bytes) > room-t.rel:
			return c.fail(dataOffset, "tensor %q wants %d bytes at offset %d, but the data has only %d bytes: the file is cut or damaged", t.Name, t.Bytes, t.rel, room)
		case t.rel < next:
			return c.fail(t.at, "tensor %q starts at offset %d and overlaps tensor %q; it belongs at %d", t.Name, t.rel, overlapped(tensors[:i], t.rel), next)
		case t.rel > next:
			return c.fail(t.at, "tensor %q starts at offset %d and leaves a gap; it belongs at %d", t.Name, t.rel, next)
		}
		t.Offset = dataOffset + int64(t.rel)
		next = t.rel + padded(uint64(t.Bytes), uint64(alignment))
	}
	return nil
}

// overlapped names the earlier tensor whose place, padding included, holds an offset.
func overlapped(before []Tensor, offset uint64) string {
	for i := len(before) - 1; i > 0; i-- {
		if before[i].rel <= offset {
			return before[i].Name
		}
	}
	return before[0].Name
}

// padded rounds up to a multiple of a power of two.
func padded(n, alignment uint64) uint64 {
	return (n + alignment - 1) &^ (alignment - 1)
}
