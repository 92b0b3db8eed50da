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
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	return &httpFrontend{spec: spec, socket: socket, url: httpURL(spec.HTTP, listener.Addr())}, nil
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
