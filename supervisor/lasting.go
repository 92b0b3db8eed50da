package supervisor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// lastingListener is a listener on a private Unix socket that can be opened again
// when somebody has removed the socket from its folder. Connections that there are
// go on.
type lastingListener struct {
	path string

	mu     sync.Mutex
	now    *net.UnixListener
	closed bool
}

var _ net.Listener = (*lastingListener)(nil)

// listenPrivately opens a socket. The directory is closed to others already; the
// mode is for those who move it.
func listenPrivately(path string) (*lastingListener, error) {
	l, err := openSocket(path)
	if err != nil {
		return nil, err
	}
	return &lastingListener{path: path, now: l}, nil
}

func openSocket(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("cannot open the endpoint: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect the endpoint: %w", err), l.Close())
	}
	return l, nil
}

// Accept waits for the next connection, whichever socket it comes by.
func (l *lastingListener) Accept() (net.Conn, error) {
	for {
		at := l.current()
		conn, err := at.Accept()
		if err != nil && at != l.current() {
			continue // another socket has taken its place
		}
		return conn, err
	}
}

func (l *lastingListener) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// restore opens the socket again if it is gone, and reports whether it was.
func (l *lastingListener) restore() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Lstat(l.path); l.closed || !errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	next, err := openSocket(l.path)
	if err != nil {
		return true, err
	}
	old := l.now
	l.now = next
	old.SetUnlinkOnClose(false) // the path is the new socket's
	_ = old.Close()             // nobody could reach it
	return true, nil
}

// Close ends Accept and removes the socket.
func (l *lastingListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.now.Close()
}

func (l *lastingListener) Addr() net.Addr { return l.current().Addr() }
