package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

const (
	maxKeys = 1 << 16
	maxKey  = 1<<16 - 1
	// The least bytes that a key with its value and a row of the tensor table take.
	leastKey    = 8 + 1 + 4 + 1
	leastTensor = 8 + 1 + 4 + 4 + 8
)

// File is the header of a model file. It does not change after Read.
type File struct {
	size       int64   // of all parts
	sizes      []int64 // of each part
	paths      []string
	dataOffset int64 // of the first part
	alignment  int64
	header     []byte
	keys       []string // in file order
	values     map[string]value
	tensors    []Tensor
}

// Read reads and checks the header of a model of size bytes in one file.
func Read(r io.ReaderAt, size int64) (*File, error) {
	return ReadParts(Part{r, size})
}

// read is Read with what is asked of the metadata.
func read(r io.ReaderAt, size int64, check func(*File) error) (*File, error) {
	c := &cursor{r: r, size: size, where: "file header"}
	if size <= 0 {
		return nil, c.fail(0, "the file is empty")
	}
	tensorCount, keyCount, err := c.counts()
	if err != nil {
		return nil, err
	}
	f := &File{size: size, sizes: []int64{size}}
	if err := c.metadata(f, keyCount); err != nil {
		return nil, err
	}
	f.header = c.buf
	if err := check(f); err != nil {
		return nil, err
	}
	f.tensors, err = c.tensorTable(tensorCount)
	if err != nil {
		return nil, err
	}
	f.header = c.buf
	f.dataOffset = int64(padded(uint64(c.pos), uint64(f.alignment)))
	if err := c.place(f.tensors, f.dataOffset, f.alignment); err != nil {
		return nil, err
	}
	return f, nil
}

// counts reads the fixed part: magic, version and the two counts.
func (c *cursor) counts() (tensors, keys uint64, err error) {
	at, err := c.skip(4)
	if err != nil {
		return 0, 0, err
	}
	if magic := c.buf[at : at+4]; !bytes.Equal(magic, []byte("GGUF")) {
		return 0, 0, c.fail(at, "the magic is %q and not \"GGUF\": this is no GGUF file", magic)
	}
	version, err := c.u32()
	if err != nil {
		return 0, 0, err
	}
	if version != 2 && version != 3 {
		if swapped := binary.BigEndian.Uint32(c.buf[at+4:]); swapped >= 1 && swapped <= 0xffff {
			return 0, 0, c.fail(4, "big-endian GGUF of version %d; only little-endian files can be read", swapped)
		}
		return 0, 0, c.fail(4, "GGUF version %d; only versions 2 and 3 can be read", version)
	}
	if tensors, err = c.u64(); err != nil {
		return 0, 0, err
	}
	if keys, err = c.u64(); err != nil {
		return 0, 0, err
	}
	for _, n := range []struct {
		at          int64
		what        string
		claim, most uint64
		least       uint64 // bytes that one takes
	}{
		{8, "tensors", tensors, maxTensors, leastTensor},
		{16, "metadata keys", keys, maxKeys, leastKey},
	} {
		switch {
		case n.claim > n.most:
			return 0, 0, c.fail(n.at, "claims %d %s; at most %d are allowed", n.claim, n.what, n.most)
		case n.claim > c.left()/n.least:
			return 0, 0, c.fail(n.at, "claims %d %s, but only %d bytes follow: the file is cut or damaged", n.claim, n.what, c.left())
		}
	}
	return tensors, keys, nil
}

// metadata reads the keys and their values.
func (c *cursor) metadata(f *File, count uint64) error {
	f.values = make(map[string]value)
	for i := range count {
		c.where, c.field = fmt.Sprintf("metadata key number %d", i), ""
		at := c.pos
		s, err := c.str()
		if err != nil {
			return err
		}
		raw := c.buf[s.start:s.end]
		switch {
		case len(raw) == 0:
			return c.fail(at, "the key is empty")
		case len(raw) > maxKey:
			return c.fail(at, "the key has %d bytes; at most %d are allowed", len(raw), maxKey)
		case bytes.IndexByte(raw, 0) >= 0:
			return c.fail(at, "the key %q contains a zero byte", raw[:min(len(raw), 100)])
		}
		key := string(raw)
		c.where, c.field = fmt.Sprintf("metadata key %q", key), key
		if _, twice := f.values[key]; twice {
			return c.fail(at, "the key is there twice")
		}
		v, err := c.value()
		if err != nil {
			return err
		}
		f.keys = append(f.keys, key)
		f.values[key] = v
	}
	return nil
}

// wrong is an error about a key's value.
func wrong(key, format string, args ...any) error {
	return &shared.Error{
		Kind:    shared.KindModelFile,
		Field:   key,
		Message: fmt.Sprintf("metadata key %q: ", key) + fmt.Sprintf(format, args...),
	}
}

// Architecture is general.architecture, such as llama.
func (f *File) Architecture() string { return f.String("general.architecture") }

// ChatTemplate is the model's own template, or empty.
func (f *File) ChatTemplate() string { return f.String("tokenizer.chat_template") }

// Tensors is the tensor table in file order.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// DataOffset is where the tensors' data starts.
func (f *File) DataOffset() int64 { return f.dataOffset }

// Paths are the files of the model, when it was read by ReadFile.
func (f *File) Paths() []string { return slices.Clone(f.paths) }

// Size is the size of all its files together.
func (f *File) Size() int64 { return f.size }

// WeightBytes is the size of all tensors without padding.
func (f *File) WeightBytes() int64 {
	var n int64
	for _, t := range f.tensors {
		n += t.Bytes
	}
	return n
}
