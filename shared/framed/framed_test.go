package framed

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/firstframe/firstframe/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

const (
	testLimit = 1 << 20
	patience  = 20 * time.Second
)

type text = wrapperspb.StringValue

// talk is a service of one server stream.
type talk func(ctx context.Context, request string, send func(string) error) error

func (f talk) desc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Talk",
		Streams: []grpc.StreamDesc{{StreamName: "Say", ServerStreams: true, Handler: func(impl any, st grpc.ServerStream) error {
			var request text
			if err := st.RecvMsg(&request); err != nil {
				return err
			}
			return impl.(talk)(st.Context(), request.Value, func(s string) error { return st.SendMsg(wrapperspb.String(s)) })
		}}},
	}
}

// serving runs a server at a path until the test ends.
func serving(t *testing.T, path string, f talk) (s *Server, accepted *atomic.Int32) {
	t.Helper()
	s = NewServer(testLimit)
	s.RegisterService(f.desc(), f)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int32)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(countingListener{l, accepted}) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, accepted
}

type countingListener struct {
	net.Listener
	accepted *atomic.Int32
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

func dialing(t *testing.T, path string) *Dialer {
	d := NewDialer(path, testLimit)
	t.Cleanup(d.Close)
	return d
}

// say makes a call and hands on what comes back.
func say(ctx context.Context, d *Dialer, request string, got func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := d.Over(nil).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Talk/Say")
	if err != nil {
		return err
	}
	if err := st.SendMsg(wrapperspb.String(request)); err != nil {
		return err
	}
	for {
		var m text
		if err := st.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		got(m.Value)
	}
}

func ignore(string) {}

func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("it takes too long: %s", what)
	}
	return v
}

// words answers with the words of the request.
func words(_ context.Context, request string, send func(string) error) error {
	for _, w := range strings.Fields(request) {
		if err := send(w); err != nil {
			return err
		}
	}
	return nil
}

func TestMessagesComeInOrderOverOneConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	_, accepted := serving(t, path, words)
	d := dialing(t, path)
	for _, want := range []string{"", "one", "once upon a time", strings.Repeat("many ", 5000)} {
		var got []string
		if err := say(t.Context(), d, want, func(s string) { got = append(got, s) }); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("%q came back for %q", got, want)
		}
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d connections for calls one after the other", n)
	}
}

func TestErrorsArriveAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	want := status.New(codes.NotFound, "no such thing")
	want, err := want.WithDetails(wrapperspb.String("a detail"))
	if err != nil {
		t.Fatal(err)
	}
	_, accepted := serving(t, path, func(_ context.Context, request string, send func(string) error) error {
		switch request {
		case "refused":
			_ = send("some")
			return want.Err()
		case "too long":
			return send(strings.Repeat("x", testLimit))
		}
		return nil
	})
	d := dialing(t, path)
	got := status.Convert(say(t.Context(), d, "refused", ignore))
	if got.Code() != codes.NotFound || got.Message() != "no such thing" || len(got.Details()) != 1 {
		t.Errorf("got %v with %v", got, got.Details())
	}
	if err := say(t.Context(), d, "too long", ignore); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message beyond the limit gave %v", err)
	}
	if err := say(t.Context(), d, "fine", ignore); err != nil || accepted.Load() != 1 {
		t.Errorf("a call after failed ones: %v, %d connections", err, accepted.Load())
	}
	if err := say(t.Context(), d, strings.Repeat("x", testLimit+1), ignore); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request beyond the limit gave %v", err)
	}
	st, err := d.Over(nil).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Talk/Sing")
	if err == nil {
		err = st.SendMsg(wrapperspb.String(""))
	}
	if err == nil {
		err = st.RecvMsg(new(text))
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown stream gave %v", err)
	}
}

func TestWhoeverLeavesEndsTheOtherSide(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stopped := make(chan error, 8)
	s, _ := serving(t, path, func(ctx context.Context, request string, send func(string) error) error {
		if request == "flood" { // and nobody reads
			for {
				if err := send(strings.Repeat("x", 1<<16)); err != nil {
					stopped <- err
					return err
				}
			}
		}
		err := send("first")
		<-ctx.Done()
		stopped <- ctx.Err()
		return err
	})
	d := dialing(t, path)
	for _, request := range []string{"wait", "flood"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := say(ctx, d, request, func(string) { cancel() })
		if status.Code(err) != codes.Canceled {
			t.Errorf("%s: a cancelled call gave %v", request, err)
		}
		if within(t, "the end of "+request, stopped) == nil {
			t.Errorf("%s: the other side was not cancelled", request)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := say(ctx, d, "wait", ignore); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a deadline gave %v", err)
	}
	first := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- say(t.Context(), d, "wait", func(s string) { first <- s }) }()
	within(t, "the first message", first)
	s.Close()
	if err := within(t, "the end of a cut call", ended); status.Code(err) != codes.Unavailable {
		t.Errorf("a call whose server has gone gave %v", err)
	}
	if err := say(t.Context(), d, "wait", ignore); status.Code(err) != codes.Unavailable {
		t.Errorf("a call without a server gave %v", err)
	}
}

func TestClosedDialerCutsItsCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serving(t, path, func(ctx context.Context, _ string, send func(string) error) error {
		err := send("first")
		<-ctx.Done()
		return err
	})
	d := dialing(t, path)
	err := say(t.Context(), d, "", func(string) { d.Close() })
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the running call gave %v", err)
	}
	if err := say(t.Context(), d, "", ignore); status.Code(err) != codes.Unavailable {
		t.Errorf("a call through a closed dialer gave %v", err)
	}
}

// An idle connection whose server was replaced is not taken for the next call.
func TestRestartedServerIsReachedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, _ := serving(t, path, words)
	d := dialing(t, path)
	if err := say(t.Context(), d, "one", ignore); err != nil {
		t.Fatal(err)
	}
	s.Close()
	serving(t, path, words)
	if err := say(t.Context(), d, "two", ignore); err != nil {
		t.Error(err)
	}
}

func TestShutdownWaitsForWhatRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	finish := make(chan struct{})
	s, _ := serving(t, path, func(ctx context.Context, request string, send func(string) error) error {
		if err := send("first"); err != nil {
			return err
		}
		select {
		case <-finish:
			return send("last")
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	d := dialing(t, path)
	run := func() (first chan string, ended chan error) {
		first, ended = make(chan string, 2), make(chan error, 1)
		go func() { ended <- say(t.Context(), d, "", func(s string) { first <- s }) }()
		within(t, "the first message", first)
		return first, ended
	}
	messages, ended := run()
	down := make(chan struct{})
	go func() { s.Shutdown(t.Context()); close(down) }()
	within(t, "the beginning of the shutdown", s.stop)
	if err := say(t.Context(), d, "", ignore); status.Code(err) != codes.Unavailable {
		t.Errorf("a call during a shutdown gave %v", err)
	}
	close(finish)
	if err := within(t, "the running call", ended); err != nil || <-messages != "last" {
		t.Errorf("a call that ran at a shutdown gave %v", err)
	}
	within(t, "the shutdown", down)

	finish = nil
	s, _ = serving(t, path, func(ctx context.Context, _ string, send func(string) error) error {
		err := send("first")
		<-ctx.Done()
		return err
	})
	_, ended = run()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.Shutdown(gone)
	if err := within(t, "the cut call", ended); status.Code(err) != codes.Unavailable {
		t.Errorf("a call that was cut gave %v", err)
	}
}

// A client that sends calls without waiting gets its answers one after the other.
func TestCallsInAdvanceAreAnsweredInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serving(t, path, words)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w := newWire(conn, testLimit)
	for _, request := range []string{"a b", "c", "d e"} {
		if err := w.write(kindCall, "/test.Talk/Say", wrapperspb.String(request)); err != nil {
			t.Fatal(err)
		}
	}
	var kinds []byte
	for range 8 {
		kind, _, err := w.read(nil)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	const m, e = kindMessage, kindEnd
	if string(kinds) != string([]byte{m, m, e, m, e, m, m, e}) {
		t.Errorf("the frames came as %v", kinds)
	}
}

// lateListener refuses to accept at first.
type lateListener struct {
	net.Listener
	refuse []error
}

func (l *lateListener) Accept() (net.Conn, error) {
	if len(l.refuse) > 0 {
		err := l.refuse[0]
		l.refuse = l.refuse[1:]
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// TestFullProcessAcceptsAgain has a process without descriptors for a moment.
func TestFullProcessAcceptsAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(testLimit)
	s.RegisterService(talk(words).desc(), talk(words))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(&lateListener{l, []error{unix.EMFILE, unix.ENFILE, unix.ECONNABORTED}}) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := say(ctx, dialing(t, path), "one", ignore); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := within(t, "the end", ended); err != nil {
		t.Error(err)
	}
	broken, _ := net.Listen("unix", path)
	s = NewServer(testLimit)
	defer s.Close()
	if err := s.Serve(&lateListener{broken, []error{unix.EINVAL}}); err == nil {
		t.Error("a listener that is broken for good was not an error")
	}
}

// TestAnnouncedLengthTakesNoMemory has a client that says that a lot is coming.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		header := []byte{kindCall, 0, 0, 0, 0}
		binary.LittleEndian.PutUint32(header[1:], testLimit)
		_, _ = there.Write(append(header, make([]byte, keptBuffer)...))
		_ = there.Close()
	}()
	var before, after runtime.MemStats
	w := newWire(here, testLimit)
	runtime.ReadMemStats(&before)
	_, _, err := w.read(nil)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > testLimit/2 {
		t.Errorf("%d bytes were taken for %d that came", got, keptBuffer)
	}
}

type otherWay struct {
	grpc.ClientConnInterface
	grpc.ClientStream
}

func (o otherWay) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return o.ClientStream, nil
}

// TestRemovedSocketLeavesTheOtherWay is about calls that begin before somebody
// has noticed.
func TestRemovedSocketLeavesTheOtherWay(t *testing.T) {
	d := dialing(t, filepath.Join(t.TempDir(), "gone"))
	want := &clientStream{}
	got, err := d.Over(otherWay{ClientStream: want}).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Talk/Say")
	if err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
}

// lateContext is one whose deadline has passed and whose timer has not fired yet,
// as on a busy machine.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// A server that is there is not taken for one that cannot be reached because the
// caller's time is over: whoever is told so ends its process.
func TestDeadlineIsNotTheServersFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serving(t, path, words)
	err := say(lateContext{t.Context()}, dialing(t, path), "a b", ignore)
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}
