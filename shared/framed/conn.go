package framed

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxIdle is how many connections are kept for the next calls: with more calls at
// once, one that ends leaves its connection to one that begins.
const maxIdle = 4

// Dialer connects to a Server, and keeps connections that are idle. It has to
// be closed.
type Dialer struct {
	path  string
	limit int

	mu     sync.Mutex
	closed bool
	idle   []*wire
	busy   map[*wire]struct{}
}

// NewDialer makes a dialer for the server at the path of a Unix socket.
func NewDialer(path string, maxMessage int) *Dialer {
	return &Dialer{path: path, limit: maxMessage, busy: map[*wire]struct{}{}}
}

// Close cuts what is running and closes what is idle.
func (d *Dialer) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, w := range d.idle {
		_ = w.conn.Close() // nothing is left to be lost, here and below
	}
	d.idle = nil
	for w := range d.busy {
		_ = w.conn.Close()
	}
}

// Over gives a connection whose server streams go through this dialer and all
// other calls over base.
func (d *Dialer) Over(base grpc.ClientConnInterface) grpc.ClientConnInterface {
	return &conn{ClientConnInterface: base, dialer: d}
}

// get gives an idle connection that still stands, or a new one.
func (d *Dialer) get(ctx context.Context) (*wire, error) {
	for w := d.take(); w != nil; w = d.take() {
		if stands(w.conn) {
			return w, nil
		}
		d.drop(w)
	}
	c, err := new(net.Dialer).DialContext(ctx, "unix", d.path)
	if err != nil {
		return nil, err
	}
	w := newWire(c, d.limit)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	d.busy[w] = struct{}{}
	return w, nil
}

func (d *Dialer) take() *wire {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle) == 0 {
		return nil
	}
	w := d.idle[len(d.idle)-1]
	d.idle = d.idle[:len(d.idle)-1]
	d.busy[w] = struct{}{}
	return w
}

// put keeps a connection whose call has ended.
func (d *Dialer) put(w *wire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, w)
	if d.closed || len(d.idle) == maxIdle {
		_ = w.conn.Close()
		return
	}
	d.idle = append(d.idle, w)
}

func (d *Dialer) drop(w *wire) {
	_ = w.conn.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, w)
}

// conn is a connection with two ways to the other side.
type conn struct {
	grpc.ClientConnInterface
	dialer *Dialer
}

// NewStream begins a call. Options are for the other way.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !desc.ServerStreams || desc.ClientStreams || len(method) > maxMethod {
		return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	w, err := c.dialer.get(ctx)
	if errors.Is(err, unix.ENOENT) && c.ClientConnInterface != nil {
		// Somebody removed the socket. The process may still be there.
		return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	s := &clientStream{ctx: ctx, dialer: c.dialer, wire: w, method: method}
	// A caller who has left may never look at the stream again.
	s.unwatch = context.AfterFunc(ctx, func() { c.dialer.drop(w) })
	return s, nil
}

// failure is an error of the connection in gRPC's terms: it is the caller's
// doing, or the other side cannot be reached.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	// Dialling looks at the clock itself, and on a busy machine finds the deadline
	// passed before the context has ended: the other side is not to blame.
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	if errors.Is(err, errTooLong) {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

// clientStream is a call as generated code wants to see it. It has to be read
// to its end, or its context has to end.
type clientStream struct {
	ctx     context.Context
	dialer  *Dialer
	wire    *wire
	method  string
	unwatch func() bool
	end     error // once the call has ended
}

var _ grpc.ClientStream = (*clientStream)(nil)

func (s *clientStream) Context() context.Context { return s.ctx }

// SendMsg sends the call with its one message.
func (s *clientStream) SendMsg(m any) error {
	msg, err := message(m)
	if err == nil {
		err = s.wire.write(kindCall, s.method, msg)
	}
	if err == nil {
		return nil
	}
	if _, ours := status.FromError(err); !ours {
		err = failure(s.ctx, err)
	}
	return s.finish(err, false)
}

// CloseSend has nothing to say: a client sends one message.
func (s *clientStream) CloseSend() error { return nil }

// RecvMsg gives the next message of the answer, and io.EOF after the last one.
func (s *clientStream) RecvMsg(m any) error {
	if s.end != nil {
		return s.end
	}
	msg, err := message(m)
	if err != nil {
		return s.finish(err, false)
	}
	kind, content, err := s.wire.read(s.wire.kept)
	if err != nil {
		return s.finish(failure(s.ctx, err), false)
	}
	if cap(content) <= keptBuffer {
		s.wire.kept = content
	}
	switch kind {
	case kindMessage:
		if err := proto.Unmarshal(content, msg); err != nil {
			return s.finish(status.Errorf(codes.Internal, "cannot read the answer: %v", err), false)
		}
		return nil
	case kindEnd:
		how := &spb.Status{}
		if err := proto.Unmarshal(content, how); err != nil {
			return s.finish(status.Errorf(codes.Internal, "cannot read how the call ended: %v", err), false)
		}
		if err := status.FromProto(how).Err(); err != nil {
			return s.finish(err, true)
		}
		return s.finish(io.EOF, true)
	default:
		return s.finish(status.Errorf(codes.Internal, "a frame of kind %d instead of an answer", kind), false)
	}
}

// finish notes how the call ended. A connection on which it ended in order, and
// that its caller did not leave meanwhile, serves the next one.
func (s *clientStream) finish(end error, inOrder bool) error {
	s.end = end
	if s.unwatch() && inOrder {
		s.dialer.put(s.wire)
	} else {
		s.dialer.drop(s.wire)
	}
	return end
}

// Headers and trailers are not carried.

func (s *clientStream) Header() (metadata.MD, error) { return nil, nil }
func (s *clientStream) Trailer() metadata.MD         { return nil }
