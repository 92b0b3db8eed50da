package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/firstframe/firstframe/shared"
)

const (
	// maxHeader bounds metadata and tensor table together. The largest headers
	// in use, with a vocabulary of a quarter of a million tokens and a second
	// copy of the tokenizer as JSON, stay under a tenth of it.
	maxHeader = 256 << 20
	firstRead = 64 << 10
)

// cursor walks through the header. It reads ahead in growing steps and keeps
// all it has read in one buffer, which the File then refers into.
type cursor struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	pos  int64
	// where is the region being read, for errors.
	where string
	// field is the key or tensor being read, when there is one.
	field string
}

// fail makes an error about the region at hand and a byte offset.
func (c *cursor) fail(at int64, format string, args ...any) error {
	return &shared.Error{
		Kind:    shared.KindModelFile,
		Field:   c.field,
		Message: fmt.Sprintf("%s at byte %d: ", c.where, at) + fmt.Sprintf(format, args...),
	}
}

// left is how many bytes of the file follow.
func (c *cursor) left() uint64 { return uint64(c.size - c.pos) }

// skip moves over n bytes, which it makes sure are in the buffer, and gives
// the offset at which they start.
func (c *cursor) skip(n uint64) (int64, error) {
	start := c.pos
	if n > c.left() {
		return 0, c.fail(start, "needs %d bytes, but the file ends after %d more: it is cut or damaged", n, c.left())
	}
	if n > uint64(maxHeader-start) {
		return 0, c.fail(start, "the header is larger than %d MiB", maxHeader>>20)
	}
	end := start + int64(n)
	if end > int64(len(c.buf)) {
		if err := c.fill(end); err != nil {
			return 0, err
		}
	}
	c.pos = end
	return start, nil
}

// fill reads on until the buffer reaches at least to end.
func (c *cursor) fill(end int64) error {
	have := int64(len(c.buf))
	want := min(max(end, 2*have, firstRead), c.size, maxHeader)
	grown := make([]byte, want)
	copy(grown, c.buf)
	n, err := c.r.ReadAt(grown[have:], have)
	if int64(n) < want-have {
		if err == nil || errors.Is(err, io.EOF) {
			return c.fail(have+int64(n), "the file ended here although its size was %d: it was cut while it was read", c.size)
		}
		return &shared.Error{
			Kind:    shared.KindModelFile,
			Field:   c.field,
			Message: fmt.Sprintf("cannot read %s at byte %d", c.where, have+int64(n)),
			Err:     err,
		}
	}
	c.buf = grown
	return nil
}

func (c *cursor) u32() (uint32, error) {
	at, err := c.skip(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(c.buf[at:]), nil
}

func (c *cursor) u64() (uint64, error) {
	at, err := c.skip(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(c.buf[at:]), nil
}

// span is a run of header bytes.
type span struct{ start, end int64 }

// str moves over a string and gives its bytes' place.
func (c *cursor) str() (span, error) {
	n, err := c.u64()
	if err != nil {
		return span{}, err
	}
	if n > c.left() {
		return span{}, c.fail(c.pos-8, "claims a string of %d bytes, but only %d bytes follow", n, c.left())
	}
	at, err := c.skip(n)
	if err != nil {
		return span{}, err
	}
	return span{at, c.pos}, nil
}
