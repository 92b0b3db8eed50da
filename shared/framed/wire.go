// Package framed carries the server streams of gRPC services over Unix sockets
// without HTTP/2. Each running call has a connection for itself; a message is one
// write by whoever sends it and one read by whoever waits for it. Between two
// processes of one machine that is what a stream costs least: nothing is
// multiplexed, so nobody has to hand anything on to another goroutine.
//
// Services and messages stay those of the contract. Server registers them like
// a grpc.Server, and Dialer.Over gives a grpc.ClientConnInterface, so that the
// generated code is the same over either way.
package framed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A frame is its kind, the length of what follows and that.
//
//	call     the length of the method's name as one byte, the name, the request
//	message  an answer's next message
//	end      the call's google.rpc.Status; after it the next call may come
const (
	kindCall byte = iota + 1
	kindMessage
	kindEnd
)

const headerBytes = 5

// maxMethod is the longest name of a method that one byte can tell.
const maxMethod = 255

// keptBuffer is the size up to which a buffer is kept for the next frame.
const keptBuffer = 64 << 10

// wire is one end of a connection. One goroutine at a time writes and one reads.
type wire struct {
	conn  net.Conn
	in    *bufio.Reader
	limit int    // of a message in bytes
	out   []byte // of the latest frame sent
	kept  []byte // of the latest message received, for its content is copied at once
}

func newWire(conn net.Conn, limit int) *wire {
	return &wire{conn: conn, in: bufio.NewReader(conn), limit: limit}
}

// write sends a frame at once. method is for calls.
func (w *wire) write(kind byte, method string, m proto.Message) error {
	if size := proto.Size(m); size > w.limit {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes is longer than the %d that are allowed", size, w.limit)
	}
	b := w.out[:0]
	b = append(b, kind, 0, 0, 0, 0)
	if kind == kindCall {
		b = append(b, byte(len(method)))
		b = append(b, method...)
	}
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	binary.LittleEndian.PutUint32(b[1:headerBytes], uint32(len(b)-headerBytes))
	if cap(b) <= keptBuffer {
		w.out = b
	}
	_, err = w.conn.Write(b)
	return err
}

var errTooLong = errors.New("a frame is longer than allowed")

// read gives the next frame; into is used for its content when that has room.
func (w *wire) read(into []byte) (kind byte, content []byte, err error) {
	header, err := w.in.Peek(headerBytes)
	if err != nil {
		if len(header) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	kind = header[0]
	size := int64(binary.LittleEndian.Uint32(header[1:]))
	if size > int64(w.limit)+1+maxMethod {
		return 0, nil, fmt.Errorf("%w: %d bytes", errTooLong, size)
	}
	_, _ = w.in.Discard(headerBytes) // it was there to be seen
	content, err = w.content(into[:0], int(size))
	return kind, content, err
}

// content reads so many bytes into a buffer, which grows with what has come: a
// length costs its sender nothing and must not cost memory here.
func (w *wire) content(b []byte, size int) ([]byte, error) {
	for len(b) < size {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(size-len(b), max(len(b), keptBuffer)))
		}
		from := len(b)
		b = b[:min(size, cap(b))]
		if _, err := io.ReadFull(w.in, b[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}

// splitCall takes a call frame apart.
func splitCall(content []byte) (method string, request []byte, err error) {
	if len(content) == 0 || len(content) < 1+int(content[0]) {
		return "", nil, errors.New("a call names no method")
	}
	end := 1 + int(content[0])
	return string(content[1:end]), content[end:], nil
}
