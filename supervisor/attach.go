package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/framed"
	"github.com/firstframe/firstframe/shared/regular"
)

// attachPatience bounds an Attach: a supervisor that is stopped accepts
// connections and says nothing.
const attachPatience = 5 * time.Second

// redial is how long a connection that was lost is given up for before it is
// tried again: a supervisor that is restarted takes the same address.
func redial() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: attachPatience,
	}
}

// Attach connects to the supervisor that runs in a state directory. The function
// that comes back ends the connection, and nothing else.
func Attach(ctx context.Context, stateDir string, logger hclog.Logger) (shared.Frontend, func(), error) {
	rec, err := readEndpoint(stateDir)
	if err != nil {
		return nil, nil, err
	}
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, attachPatience, &shared.Error{
		Kind:    shared.KindUnavailable,
		Message: fmt.Sprintf("the supervisor in %s (pid %d) does not answer", stateDir, rec.PID),
	})
	defer cancel()

	a := &attachment{rec: rec, closed: make(chan struct{})}
	if rec.Streams != "" {
		a.streams = shared.NewStreamDialer(rec.Streams)
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.FrontendPlugins(a.streams),
		AllowedProtocols: []plugin.Protocol{rec.Protocol},
		Reattach: &plugin.ReattachConfig{
			Protocol:        rec.Protocol,
			ProtocolVersion: rec.ProtocolVersion,
			Addr:            &net.UnixAddr{Net: rec.Network, Name: rec.Address},
			Pid:             rec.PID,
			ReattachFunc:    a.runner,
			// Without it, go-plugin would kill the supervisor at the end.
			Test: true,
		},
		GRPCDialOptions: append(shared.DialOptions(), grpc.WithContextDialer(a.dial), grpc.WithConnectParams(redial())),
		Logger:          hclog.NewNullLogger(),
	})

	type connection struct {
		protocol plugin.ClientProtocol
		frontend shared.Frontend
		err      error
	}
	connected := make(chan connection, 1)
	go func() {
		var c connection
		if c.protocol, c.err = client.Client(); c.err == nil {
			c.frontend, c.err = dispenseFrontend(c.protocol)
		}
		if c.err == nil {
			c.err = a.dialError()
		}
		connected <- c
	}()

	var c connection
	select {
	case c = <-connected:
	case <-ctx.Done():
		a.close() // cuts the connection that is being waited for
		c = <-connected
		c.err = context.Cause(ctx)
	}
	end := func() {
		a.close()
		if c.protocol != nil {
			_ = c.protocol.Close() // the connection is cut; there is nothing to say
		}
	}
	if c.err != nil {
		end()
		return nil, nil, attachError(stateDir, c.err)
	}
	logger.Debug("attached", "pid", rec.PID)
	return c.frontend, sync.OnceFunc(end), nil
}

func dispenseFrontend(protocol plugin.ClientProtocol) (shared.Frontend, error) {
	raw, err := protocol.Dispense(shared.FrontendPluginName)
	if err != nil {
		return nil, err
	}
	frontend, ok := raw.(shared.Frontend)
	if !ok {
		return nil, fmt.Errorf("the plugin gave a %T instead of a frontend", raw)
	}
	return frontend, nil
}

// readEndpoint finds the supervisor that serves a state directory.
func readEndpoint(stateDir string) (endpointRecord, error) {
	path := filepath.Join(stateDir, endpointFile)
	data, err := regular.Read(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return endpointRecord{}, notRunning(stateDir)
	}
	if err != nil {
		return endpointRecord{}, attachError(stateDir, err)
	}
	rec, err := parseEndpoint(data)
	if err != nil {
		return endpointRecord{}, attachError(stateDir, fmt.Errorf("%s is damaged: %w", path, err))
	}
	if !rec.alive() {
		return endpointRecord{}, notRunning(stateDir)
	}
	if rec.ProtocolVersion != shared.ProtocolVersion {
		return endpointRecord{}, shared.Errorf(shared.KindProtocol,
			"the supervisor in %s speaks protocol version %d and this program %d; use the same version of both",
			stateDir, rec.ProtocolVersion, shared.ProtocolVersion)
	}
	return rec, nil
}

func parseEndpoint(data []byte) (endpointRecord, error) {
	var rec endpointRecord
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, err
	}
	switch {
	case rec.PID <= 0:
		return rec, errors.New("it names no process")
	case rec.Network != "unix" || rec.Address == "":
		return rec, errors.New("it names no socket")
	case rec.Protocol != plugin.ProtocolGRPC:
		return rec, fmt.Errorf("the protocol is %q", rec.Protocol)
	}
	return rec, nil
}

func notRunning(stateDir string) error {
	return shared.Errorf(shared.KindUnavailable, "no supervisor is running in %s (start one with firstframe serve)", stateDir)
}

func attachError(stateDir string, err error) error {
	e := shared.AsError(err, "", "")
	if e.Kind != shared.KindOther {
		return e
	}
	return shared.Errorf(shared.KindUnavailable, "cannot attach to the supervisor in %s: %w", stateDir, err)
}

// attachment is a supervisor as go-plugin wants to see a process that it is
// attached to, and the connections to it: one for calls and those of streams.
type attachment struct {
	rec     endpointRecord
	streams *framed.Dialer // nil when they go the way of all calls
	closed  chan struct{}

	mu   sync.Mutex
	done bool
	conn net.Conn
	err  error // of the latest dial
}

func (a *attachment) runner() (runner.AttachedRunner, error) { return a, nil }

// dial connects, and keeps the connection so that it can be cut.
func (a *attachment) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, a.rec.Network, a.rec.Address)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	if err != nil {
		return nil, err
	}
	if a.done {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	a.conn = conn
	return conn, nil
}

func (a *attachment) dialError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *attachment) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	close(a.closed)
	if a.streams != nil {
		a.streams.Close()
	}
	if a.conn != nil {
		_ = a.conn.Close() // gRPC closes it again and looks at the error
	}
}

// Wait returns with close. It does not watch the process: the connection tells
// of its end sooner.
func (a *attachment) Wait(context.Context) error {
	<-a.closed
	return nil
}

// Kill kills nothing: who attaches is a guest.
func (a *attachment) Kill(context.Context) error { return nil }

// ID is the supervisor's pid.
func (a *attachment) ID() string { return strconv.Itoa(a.rec.PID) }

// PluginToHost leaves addresses as they are.
func (a *attachment) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin leaves addresses as they are.
func (a *attachment) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
