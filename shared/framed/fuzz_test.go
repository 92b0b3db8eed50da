package framed

import (
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// frames gives what a peer sends as bytes.
func frames(f *testing.F, send func(w *wire) error) []byte {
	f.Helper()
	here, there := net.Pipe()
	read := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(there)
		read <- b
	}()
	if err := send(newWire(here, testLimit)); err != nil {
		f.Fatal(err)
	}
	_ = here.Close()
	return <-read
}

// FuzzServer gives a server whatever a client could send. It has to come to an
// end with the connection.
func FuzzServer(f *testing.F) {
	f.Add(frames(f, func(w *wire) error { return w.write(kindCall, "/test.Talk/Say", wrapperspb.String("a b")) }))
	f.Add([]byte{kindCall, 1, 0, 0, 0, 200})
	f.Add([]byte{kindMessage, 0, 0, 0, 0})
	f.Add([]byte{kindCall, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := NewServer(testLimit)
		s.RegisterService(talk(words).desc(), talk(words))
		here, there := net.Pipe()
		s.welcome(there)
		drained := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, here)
			close(drained)
		}()
		_, _ = here.Write(sent) // it may have been cut before
		_ = here.Close()
		s.running.Wait()
		<-drained
		if len(s.conns) != 0 {
			t.Error("a connection is left")
		}
	})
}

// FuzzAnswer gives a client whatever a server could send.
func FuzzAnswer(f *testing.F) {
	f.Add(frames(f, func(w *wire) error { return w.write(kindMessage, "", wrapperspb.String("a")) }))
	f.Add([]byte{kindEnd, 0, 0, 0, 0})
	f.Add([]byte{kindEnd, 2, 0, 0, 0, 8, 5})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, sent []byte) {
		here, there := net.Pipe()
		go func() {
			_, _ = there.Write(sent)
			_ = there.Close()
		}()
		d := NewDialer("", testLimit)
		st := &clientStream{ctx: t.Context(), dialer: d, wire: newWire(here, testLimit), unwatch: func() bool { return true }}
		var got grpc.ClientStream = st
		for got.RecvMsg(new(text)) == nil {
		}
		d.Close()
		if _, err := here.Write([]byte{1}); err == nil {
			t.Error("the connection is still open")
		}
	})
}
