package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// proxySpec is what serve tells the proxy that it starts, over a pipe: keys
// belong neither on a command line nor into an environment.
type proxySpec struct {
	HTTP     shared.HTTPSpec
	LogLevel string
	LogJSON  bool
	// OTLPEndpoint takes traces; empty means none.
	OTLPEndpoint string
}

// httpFrontend is the proxy as a child of serve, with the socket that outlives it.
type httpFrontend struct {
	spec   proxySpec
	socket *os.File
	url    string
	child  *supervisor.Companion // nil until start
}

// listenHTTP opens the address. The socket belongs to serve: an address that is
// taken ends it before anything is loaded, and while a proxy is replaced its
// clients wait instead of being refused.
func listenHTTP(ctx context.Context, spec proxySpec) (*httpFrontend, error) {
	if spec.HTTP.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(spec.HTTP.CertFile, spec.HTTP.KeyFile); err != nil {
			return nil, shared.Errorf(shared.KindConfig, "cannot use the tls certificate: %w", err)
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", spec.HTTP.Listen)
	if err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot listen on %s: %w", spec.HTTP.Listen, err)
	}
	defer func() { _ = listener.Close() }() // the file below keeps it open
	socket, err := unpolled(listener.(*net.TCPListener))
	if err != nil {
		return nil, fmt.Errorf("cannot keep the socket of %s: %w", spec.HTTP.Listen, err)
	}
	return &httpFrontend{spec: spec, socket: socket, url: httpURL(spec.HTTP, listener.Addr())}, nil
}

// unpolled is the socket of a listener as a file that the runtime's poller does
// not know. With one that it knows, each new connection would wake this process
// too, which accepts none.
func unpolled(l *net.TCPListener) (*os.File, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	controlErr := raw.Control(func(own uintptr) {
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		// os.NewFile leaves files in blocking mode alone. Whoever accepts sets its mode itself.
		if err = unix.SetNonblock(fd, false); err != nil {
			_ = unix.Close(fd) // the first error is the one that tells
		}
	})
	if err := errors.Join(controlErr, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// start starts the proxy and keeps it running.
func (h *httpFrontend) start(stateDir string, output io.Writer, logger hclog.Logger) error {
	line, err := json.Marshal(h.spec)
	if err != nil {
		return err
	}
	args := []string{"proxy", "--inherit", "--state-dir", stateDir}
	if h.spec.HTTP.CertFile != "" {
		args = append(args, "--tls-cert", h.spec.HTTP.CertFile, "--tls-key", h.spec.HTTP.KeyFile) // what it may read
	}
	if h.spec.OTLPEndpoint != "" {
		args = append(args, "--otlp-endpoint", h.spec.OTLPEndpoint) // what it may reach
	}
	h.child, err = supervisor.StartCompanion(supervisor.CompanionConfig{
		Name: "http", Args: args, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Spec: line, Listener: h.socket, Output: output, Logger: logger,
	})
	return err
}

// close ends the proxy, if there is one; running requests get a moment.
func (h *httpFrontend) close() error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeMargin)
	defer cancel()
	var err error
	if h.child != nil {
		err = h.child.Close(ctx)
	}
	return errors.Join(err, h.socket.Close())
}

func httpURL(spec shared.HTTPSpec, addr net.Addr) string {
	if spec.CertFile != "" {
		return "https://" + addr.String()
	}
	return "http://" + addr.String()
}

// inherited is what serve has left to this process: its spec and the open
// socket. The context ends with the supervisor's end of the pipe.
func inherited(ctx context.Context) (context.Context, proxySpec, net.Listener, error) {
	var spec proxySpec
	pipe := os.NewFile(supervisor.CompanionSpecFD, "spec")
	socket := os.NewFile(supervisor.CompanionListenerFD, "listener")
	lines := bufio.NewReader(pipe)
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &spec)
	}
	if err != nil {
		return nil, spec, nil, shared.Errorf(shared.KindProtocol, "only serve starts the proxy in this way: %w", err)
	}
	listener, err := net.FileListener(socket)
	if err != nil {
		return nil, spec, nil, fmt.Errorf("cannot use the inherited socket: %w", err)
	}
	_ = socket.Close() // the listener has a copy
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, lines) // ends when the supervisor closes the pipe or is gone
	}()
	return ctx, spec, listener, nil
}
