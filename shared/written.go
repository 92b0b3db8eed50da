package shared

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// writtenWait bounds the wait for a write of the transport. A peer that does not
// read holds up nobody for longer.
const writtenWait = 4 * time.Millisecond

// writes counts what a server has written to its connections. gRPC's own sends
// return once a message is queued: what queues it cannot tell when it left.
type writes struct {
	mu    sync.Mutex
	count uint64
	next  chan struct{} // closed by the next write; nil while nobody waits
}

func (w *writes) counted() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

func (w *writes) add() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	if w.next != nil {
		close(w.next)
		w.next = nil
	}
}

// beyond waits for a write after the first n.
func (w *writes) beyond(ctx context.Context, n uint64) {
	w.mu.Lock()
	if w.count > n {
		w.mu.Unlock()
		return
	}
	if w.next == nil {
		w.next = make(chan struct{})
	}
	next := w.next
	w.mu.Unlock()
	timeout := time.NewTimer(writtenWait)
	defer timeout.Stop()
	select {
	case <-next:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// countingCredentials are no credentials. They are where gRPC lets a server see
// its connections.
type countingCredentials struct {
	credentials.TransportCredentials
	writes *writes
}

func newCountingCredentials(w *writes) credentials.TransportCredentials {
	return &countingCredentials{TransportCredentials: insecure.NewCredentials(), writes: w}
}

func (c *countingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return &countedConn{Conn: conn, writes: c.writes}, info, nil
}

func (c *countingCredentials) Clone() credentials.TransportCredentials {
	return newCountingCredentials(c.writes)
}

type countedConn struct {
	net.Conn
	writes *writes
}

func (c *countedConn) Write(b []byte) (int, error) {
	defer c.writes.add()
	return c.Conn.Write(b)
}
