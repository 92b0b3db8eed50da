package shared

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
	"github.com/firstframe/firstframe/shared/framed"
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

// StreamSocket is the name of the socket that a worker opens for streams, beside
// the one that go-plugin opens for calls.
const StreamSocket = "streams.sock"

// NewStreamDialer reaches the streams of a process. It has to be closed.
func NewStreamDialer(path string) *framed.Dialer { return framed.NewDialer(path, MaxMessageBytes) }

// NewStreamServer makes a server of streams with this contract's limits.
func NewStreamServer() *framed.Server { return framed.NewServer(MaxMessageBytes) }

// WorkerPlugins is the plugin set of a host that starts workers. Without a
// dialer, streams go the way of all calls.
func WorkerPlugins(streams *framed.Dialer) plugin.PluginSet {
	return plugin.PluginSet{WorkerPluginName: &WorkerPlugin{Streams: streams}}
}

// FrontendPlugins is the plugin set of a process that attaches to a supervisor,
// likewise.
func FrontendPlugins(streams *framed.Dialer) plugin.PluginSet {
	return plugin.PluginSet{FrontendPluginName: &FrontendPlugin{Streams: streams}}
}

// over gives the connection that a client's calls take.
func over(conn grpc.ClientConnInterface, streams *framed.Dialer) grpc.ClientConnInterface {
	if streams == nil {
		return conn
	}
	return streams.Over(conn)
}

// WorkerPlugin adapts Worker to go-plugin. Impl is set on the serving side only,
// Streams on the other one, if at all.
type WorkerPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl    Worker
	Streams *framed.Dialer
}

// GRPCServer registers Impl.
func (p *WorkerPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterSlotWorkerServer(s, &workerServer{impl: p.Impl})
	return nil
}

// GRPCClient gives a Worker. The context ends when the worker process does.
func (p *WorkerPlugin) GRPCClient(ctx context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &workerClient{process: ctx, client: pb.NewSlotWorkerClient(over(conn, p.Streams))}, nil
}

// FrontendPlugin adapts Frontend to go-plugin, likewise.
type FrontendPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl    Frontend
	Streams *framed.Dialer
}

// ServeStreams registers Impl for its streams.
func (p *FrontendPlugin) ServeStreams(s *framed.Server) {
	pb.RegisterSupervisorServer(s, &frontendServer{impl: p.Impl})
}

// GRPCServer registers Impl.
func (p *FrontendPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterSupervisorServer(s, &frontendServer{impl: p.Impl})
	return nil
}

// GRPCClient gives a Frontend.
func (p *FrontendPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &frontendClient{client: pb.NewSupervisorClient(over(conn, p.Streams))}, nil
}

// ServeWorker answers a host until the host ends it. It returns when the server
// has stopped. The handshake goes to os.Stdout.
func ServeWorker(w Worker, logger hclog.Logger) error {
	streams := NewStreamServer()
	pb.RegisterSlotWorkerServer(streams, &workerServer{impl: w})
	ended := make(chan error, 1)
	// go-plugin opens its socket in the same folder. A host that names none does
	// not look for a second socket.
	if dir := os.Getenv(plugin.EnvUnixSocketDir); dir != "" {
		socket, err := net.Listen("unix", filepath.Join(dir, StreamSocket))
		if err != nil {
			return fmt.Errorf("cannot open the socket for streams: %w", err)
		}
		go func() { ended <- streams.Serve(socket) }()
	} else {
		ended <- nil
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{WorkerPluginName: &WorkerPlugin{Impl: w}},
		GRPCServer:      NewGRPCServer,
		Logger:          logger,
	})
	streams.Close()
	return <-ended
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
