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

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/firstframe/firstframe/shared"
)

// endpointRecord is the reattach information that lies in the state directory.
type endpointRecord struct {
	processID
	Protocol        plugin.Protocol `json:"protocol"`
	ProtocolVersion int             `json:"protocol_version"`
	Network         string          `json:"network"`
	Address         string          `json:"address"`
}

// EndpointConfig says what an endpoint serves and where.
type EndpointConfig struct {
	State    *StateDir
	Frontend shared.Frontend
	Logger   hclog.Logger // nil means no log
}

// Endpoint serves a Frontend to other processes of the same user, who reach it
// with Attach or with any go-plugin client by the information in the state
// directory.
type Endpoint struct {
	state  *StateDir
	server *grpc.Server
	served chan error
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

	path := cfg.State.work(frontendSocket)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the endpoint: %w", err)
	}
	// The directory is closed to others already; this is for those who move it.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot protect the endpoint: %w", err), listener.Close())
	}
	e := &Endpoint{state: cfg.State, server: server, served: make(chan error, 1)}
	if err := e.announce(listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil // Close came first
		}
		if err != nil {
			log.Error("the endpoint does not accept connections any more", "error", err)
		}
		e.served <- err
	}()
	log.Debug("endpoint open", "socket", path)
	return e, nil
}

// announce writes the reattach information.
func (e *Endpoint) announce(addr net.Addr) error {
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
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFileAtomic(filepath.Join(e.state.path, endpointFile), append(data, '\n'))
}

// Close refuses new calls and returns when the running ones have ended. Those
// that still run when ctx ends are cut.
func (e *Endpoint) Close(ctx context.Context) error {
	err := os.Remove(filepath.Join(e.state.path, endpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.server.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		e.server.Stop()
		<-stopped
	}
	return errors.Join(err, <-e.served)
}
