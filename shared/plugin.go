package shared

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

// MaxMessageBytes bounds one message in either direction. gRPC's default of
// 4 MiB is too small for a long prompt given as token ids; without a bound a
// broken peer could make this process allocate anything.
const MaxMessageBytes = 64 << 20

// ProtocolVersion changes when the services change in a way that an older
// process on the other side cannot follow.
const ProtocolVersion = 1

// Names under which the two services are dispensed.
const (
	WorkerPluginName   = "slotworker"
	FrontendPluginName = "frontend"
)

// Handshake is what a host and a process started by it must agree on. The
// cookie tells people who start a worker by hand that this is not how it is
// used; it is no security.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "FIRSTFRAME_PLUGIN",
		MagicCookieValue: "0f4c2c6e-first-frame",
	}
}

// WorkerPlugins is the plugin set of a host that starts workers.
func WorkerPlugins() plugin.PluginSet {
	return plugin.PluginSet{WorkerPluginName: &WorkerPlugin{}}
}

// FrontendPlugins is the plugin set of a process that attaches to a supervisor.
func FrontendPlugins() plugin.PluginSet {
	return plugin.PluginSet{FrontendPluginName: &FrontendPlugin{}}
}

// WorkerPlugin adapts Worker to go-plugin. Impl is set on the serving side only.
type WorkerPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl Worker

	writes *writes // of the server that it is registered with; nil when not counted
}

// GRPCServer registers Impl.
func (p *WorkerPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterSlotWorkerServer(s, &workerServer{impl: p.Impl, writes: p.writes})
	return nil
}

// GRPCClient gives a Worker. The context ends when the worker process does.
func (p *WorkerPlugin) GRPCClient(ctx context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &workerClient{process: ctx, client: pb.NewSlotWorkerClient(conn)}, nil
}

// FrontendPlugin adapts Frontend to go-plugin. Impl is set on the serving side only.
type FrontendPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl Frontend
}

// GRPCServer registers Impl.
func (p *FrontendPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterSupervisorServer(s, &frontendServer{impl: p.Impl})
	return nil
}

// GRPCClient gives a Frontend.
func (p *FrontendPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &frontendClient{client: pb.NewSupervisorClient(conn)}, nil
}

// ServeWorker answers a host until the host ends it. It returns when the server
// has stopped. The handshake goes to os.Stdout.
func ServeWorker(w Worker, logger hclog.Logger) {
	written := &writes{}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{WorkerPluginName: &WorkerPlugin{Impl: w, writes: written}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return NewGRPCServer(append(opts, grpc.Creds(newCountingCredentials(written))))
		},
		Logger: logger,
	})
}

// The flow-control windows are set, not estimated. The estimate sends a ping for
// what comes in, and each ping wakes a process that has better things to do
// while a first chunk is on its way. A reader that stops holds up its own
// stream after streamWindow bytes.
const (
	streamWindow     = 256 << 10
	connectionWindow = 1 << 20
)

// NewGRPCServer makes a server with this contract's limits.
func NewGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
	)...)
}

// DialOptions are the client's side of the same limits.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageBytes),
			grpc.MaxCallSendMsgSize(MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
	}
}
