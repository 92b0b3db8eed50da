package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/framed"
)

// endpointRecord is the reattach information that lies in the state directory.
type endpointRecord struct {
	processID
	Protocol        plugin.Protocol `json:"protocol"`
	ProtocolVersion int             `json:"protocol_version"`
	Network         string          `json:"network"`
	Address         string          `json:"address"`
	// Streams is the path of a second socket, on which streams cost less.
	Streams string `json:"streams,omitempty"`
}

// EndpointConfig says what an endpoint serves and where.
type EndpointConfig struct {
	State    *StateDir
	Frontend shared.Frontend
	Logger   hclog.Logger // nil means no log
	// Check is how often the endpoint looks whether it can still be found; 0 means
	// a second.
	Check time.Duration
}

// Endpoint serves a Frontend to other processes of the same user, who reach it
// with Attach or with any go-plugin client by the information in the state
// directory.
type Endpoint struct {
	state   *StateDir
	server  *grpc.Server
	streams *framed.Server
	served  chan error // of both
	log     hclog.Logger

	calling, streaming *lastingListener
	stop               chan struct{} // ends guard
	guarded            chan struct{} // closed when it has ended
}

// Serve opens the endpoint.
//
// It speaks what a go-plugin client expects of a plugin and leaves out what it
// does not need: go-plugin's own server would register a controller by which any
// client can shut it down for all others, a stream of the standard output that
// only one of them can have, and a broker. A client that asks for these gets
// "unimplemented", and go on.
func Serve(cfg EndpointConfig) (*Endpoint, error) {
	if cfg.State == nil || cfg.Frontend == nil {
		return nil, shared.Errorf(shared.KindConfig, "the endpoint needs a state directory and a frontend")
	}
	log := cfg.Logger
	if log == nil {
		log = hclog.NewNullLogger()
	}
	server := shared.NewGRPCServer(nil)
	adapter := &shared.FrontendPlugin{Impl: cfg.Frontend}
	if err := adapter.GRPCServer(nil, server); err != nil {
		return nil, fmt.Errorf("cannot serve the frontend: %w", err)
	}
	alive := health.NewServer()
	alive.SetServingStatus(plugin.GRPCServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, alive)

	streams := shared.NewStreamServer()
	adapter.ServeStreams(streams)

	calling, err := listenPrivately(cfg.State.work(frontendSocket))
	if err != nil {
		return nil, err
	}
	streaming, err := listenPrivately(cfg.State.work(streamSocket))
	if err != nil {
		return nil, errors.Join(err, calling.Close())
	}
	e := &Endpoint{state: cfg.State, server: server, streams: streams, served: make(chan error, 2), log: log,
		calling: calling, streaming: streaming, stop: make(chan struct{}), guarded: make(chan struct{})}
	if err := e.announce(); err != nil {
		return nil, errors.Join(err, calling.Close(), streaming.Close())
	}
	serve := func(serve func(net.Listener) error, l net.Listener) {
		err := serve(l)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // Close came first
		}
		if err != nil {
			log.Error("the endpoint does not accept connections any more", "socket", l.Addr(), "error", err)
		}
		e.served <- err
	}
	go serve(server.Serve, calling)
	go serve(streams.Serve, streaming)
	every := cfg.Check
	if every == 0 {
		every = time.Second
	}
	go e.guard(every)
	log.Debug("endpoint open", "socket", calling.Addr())
	return e, nil
}

// announce writes the reattach information.
func (e *Endpoint) announce() error {
	addr, streams := e.calling.Addr(), e.streaming.Addr()
	id, err := identify(os.Getpid())
	if err != nil {
		return fmt.Errorf("cannot identify this process: %w", err)
	}
	data, err := json.MarshalIndent(endpointRecord{
		processID:       id,
		Protocol:        plugin.ProtocolGRPC,
		ProtocolVersion: shared.ProtocolVersion,
		Network:         addr.Network(),
		Address:         addr.String(),
		Streams:         streams.String(),
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(e.state.path, endpointFile), append(data, '\n'))
}

// guard puts back what somebody, such as a program that cleans up folders, removes
// from the state directory: without it the supervisor would serve on and could not
// be found.
func (e *Endpoint) guard(every time.Duration) {
	defer close(e.guarded)
	tick := time.NewTicker(every)
	defer tick.Stop()
	failed := "" // logged once
	for {
		select {
		case <-tick.C:
		case <-e.stop:
			return
		}
		restored, err := e.restore()
		switch {
		case err == nil:
			failed = ""
		case err.Error() != failed:
			failed = err.Error()
			e.log.Error("the endpoint was removed and cannot be opened again", "error", err)
		}
		if restored && err == nil {
			e.log.Warn("the endpoint was removed from the state directory and is open again")
		}
	}
}

func (e *Endpoint) restore() (restored bool, err error) {
	for _, l := range []*lastingListener{e.calling, e.streaming} {
		was, failure := l.restore()
		restored, err = restored || was, errors.Join(err, failure)
	}
	if _, gone := os.Lstat(filepath.Join(e.state.path, endpointFile)); errors.Is(gone, fs.ErrNotExist) {
		restored, err = true, errors.Join(err, e.announce())
	}
	return restored, err
}

// Close refuses new calls and returns when the running ones have ended. Those
// that still run when ctx ends are cut.
func (e *Endpoint) Close(ctx context.Context) error {
	close(e.stop)
	<-e.guarded
	err := os.Remove(filepath.Join(e.state.path, endpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.server.GracefulStop()
	}()
	e.streams.Shutdown(ctx)
	select {
	case <-stopped:
	case <-ctx.Done():
		e.server.Stop()
		<-stopped
	}
	return errors.Join(err, <-e.served, <-e.served)
}
