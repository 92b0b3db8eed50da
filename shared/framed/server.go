package framed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Server answers calls of the server streams of registered services.
type Server struct {
	limit   int
	methods map[string]method
	running sync.WaitGroup // goroutines of connections

	stop chan struct{} // closed, with mu held, once no more calls may begin

	mu       sync.Mutex
	listener net.Listener
	conns    map[*serverConn]bool // whether a call is running
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

type method struct {
	impl   any
	handle grpc.StreamHandler
}

// NewServer makes a server that takes and gives messages of at most that many bytes.
func NewServer(maxMessage int) *Server {
	return &Server{limit: maxMessage, methods: map[string]method{}, stop: make(chan struct{}), conns: map[*serverConn]bool{}}
}

// RegisterService adds the server streams of a service. It comes before Serve.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for _, st := range desc.Streams {
		if st.ServerStreams && !st.ClientStreams {
			s.methods["/"+desc.ServiceName+"/"+st.StreamName] = method{impl: impl, handle: st.Handler}
		}
	}
}

// Serve accepts connections until Close or Shutdown, and then gives nil.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	closed := s.isClosed()
	s.mu.Unlock()
	if closed {
		return l.Close()
	}
	for wait := shortestWait; ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			wait = shortestWait
			s.welcome(conn)
			continue
		case s.isClosed():
			return nil
		case !passes(err):
			return fmt.Errorf("cannot accept connections: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-s.stop:
			return nil
		}
		wait = min(2*wait, longestWait)
	}
}

// Waits before connections are accepted again.
const (
	shortestWait = 5 * time.Millisecond
	longestWait  = time.Second
)

// passes reports whether an error of accepting is of the moment: the connection
// that came has gone, or the process has no room for one more.
func passes(err error) bool {
	return slices.ContainsFunc([]error{
		unix.ECONNABORTED, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
	}, func(e error) bool { return errors.Is(err, e) })
}

func (s *Server) isClosed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *Server) welcome(conn net.Conn) {
	c := &serverConn{server: s, wire: newWire(conn, s.limit)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		c.leave()
		return
	}
	s.conns[c] = false
	s.running.Add(1)
	go c.next()
}

// begin notes that a call runs on a connection; it fails once no more may.
func (s *Server) begin(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return false
	}
	s.conns[c] = true
	s.running.Add(1)
	return true
}

func (s *Server) end(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; open {
		s.conns[c] = false
	}
	if s.isClosed() {
		c.leave()
	}
}

func (s *Server) forget(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown refuses new calls and returns when the running ones have ended. Those
// that still run when ctx ends are cut.
func (s *Server) Shutdown(ctx context.Context) {
	s.close(false)
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.close(true)
		<-ended
	}
}

// Close cuts all connections and returns when their calls have ended.
func (s *Server) Close() {
	s.close(true)
	s.running.Wait()
}

func (s *Server) close(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.stop)
		if s.listener != nil {
			_ = s.listener.Close() // Serve sees that it was meant
		}
	}
	for c, busy := range s.conns {
		if cut || !busy {
			c.leave()
		}
	}
}

// serverConn is one client's connection. Reading goes from goroutine to goroutine:
// the one that has read a call serves it, and another one reads on, which is how
// it is seen that the client has left.
type serverConn struct {
	server *Server
	wire   *wire
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	turn   sync.Mutex // held while a call is served
}

func (c *serverConn) leave() {
	// In this order, or a call that is cut could tell its client, as if that had
	// left, that it was cancelled.
	_ = c.wire.conn.Close() // nothing is left to be lost
	c.cancel()
}

func (c *serverConn) next() {
	defer c.server.running.Done()
	name, request, err := c.read()
	if err != nil {
		c.leave()
		c.server.forget(c)
		return
	}
	c.turn.Lock() // a client that does not wait for the end of its call waits here
	defer c.turn.Unlock()
	if !c.server.begin(c) {
		c.leave()
		c.server.forget(c)
		return
	}
	go c.next()
	defer c.server.end(c)
	if err := c.serve(name, request); err != nil {
		c.leave()
	}
}

func (c *serverConn) read() (name string, request []byte, err error) {
	kind, content, err := c.wire.read(nil)
	if err != nil {
		return "", nil, err
	}
	if kind != kindCall {
		return "", nil, fmt.Errorf("a frame of kind %d instead of a call", kind)
	}
	return splitCall(content)
}

// serve runs a call and sends how it ended. An error is one of the connection.
func (c *serverConn) serve(name string, request []byte) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	st := &serverStream{ctx: ctx, wire: c.wire, request: request}
	err := status.Errorf(codes.Unimplemented, "there is no server stream %q", name)
	if m, ok := c.server.methods[name]; ok {
		err = m.handle(m.impl, st)
	}
	if st.broken != nil {
		return st.broken
	}
	return c.wire.write(kindEnd, "", status.Convert(err).Proto())
}

// serverStream is a call as generated code wants to see it.
type serverStream struct {
	ctx     context.Context
	wire    *wire
	request []byte
	taken   bool
	broken  error // of the connection
}

var _ grpc.ServerStream = (*serverStream)(nil)

func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg gives the one message that the client sends.
func (s *serverStream) RecvMsg(m any) error {
	if s.taken {
		return status.Error(codes.Internal, "a client sends one message")
	}
	s.taken = true
	msg, err := message(m)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(s.request, msg); err != nil {
		return status.Errorf(codes.Internal, "cannot read the request: %v", err)
	}
	s.request = nil
	return nil
}

// SendMsg returns when the message has been written.
func (s *serverStream) SendMsg(m any) error {
	msg, err := message(m)
	if err != nil {
		return err
	}
	err = s.wire.write(kindMessage, "", msg)
	if err == nil {
		return nil
	}
	if _, ours := status.FromError(err); ours {
		return err
	}
	s.broken = err
	return status.Errorf(codes.Unavailable, "cannot send: %v", err)
}

// Headers and trailers are not carried.

func (s *serverStream) SetHeader(metadata.MD) error  { return errNoMetadata }
func (s *serverStream) SendHeader(metadata.MD) error { return errNoMetadata }
func (s *serverStream) SetTrailer(metadata.MD)       {}

var errNoMetadata = errors.New("framed streams carry no metadata")

func message(m any) (proto.Message, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is no protobuf message", m)
	}
	return msg, nil
}
