package shared

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"

	"github.com/firstframe/firstframe/internal/leak"
	pb "github.com/firstframe/firstframe/shared/firstframepb"
	"github.com/firstframe/firstframe/shared/framed"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m,
		// go-plugin's broker of a test server has no stop of its own.
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.(*GRPCBroker).Run"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.(*gRPCBrokerServer).Recv"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/go-plugin.(*gRPCBrokerClientImpl).Recv"),
	))
}

type generateFunc func(context.Context, GenerateRequest, func(Chunk) error) (Result, error)

// overBoth runs a test against both services, each through go-plugin's gRPC and
// with streams on a socket of their own.
func overBoth(t *testing.T, impl generateFunc, test func(t *testing.T, call generateFunc)) {
	t.Run("worker", func(t *testing.T) {
		client, _ := plugin.TestPluginGRPCConn(t, false, plugin.PluginSet{WorkerPluginName: &WorkerPlugin{Impl: generatorWorker{generate: impl}}})
		defer client.Close()
		raw, err := client.Dispense(WorkerPluginName)
		if err != nil {
			t.Fatal(err)
		}
		test(t, raw.(Worker).Generate)
	})
	t.Run("worker's streams", func(t *testing.T) {
		dialer := streaming(t, func(s *framed.Server) {
			pb.RegisterSlotWorkerServer(s, &workerServer{impl: generatorWorker{generate: impl}})
		})
		client, err := WorkerPlugins(dialer)[WorkerPluginName].(*WorkerPlugin).GRPCClient(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, client.(Worker).Generate)
	})
	t.Run("frontend", func(t *testing.T) {
		client, _ := plugin.TestPluginGRPCConn(t, false, plugin.PluginSet{FrontendPluginName: &FrontendPlugin{Impl: generatorFrontend{generate: impl}}})
		defer client.Close()
		raw, err := client.Dispense(FrontendPluginName)
		if err != nil {
			t.Fatal(err)
		}
		test(t, raw.(Frontend).Generate)
	})
	t.Run("frontend's streams", func(t *testing.T) {
		dialer := streaming(t, (&FrontendPlugin{Impl: generatorFrontend{generate: impl}}).ServeStreams)
		client, err := FrontendPlugins(dialer)[FrontendPluginName].(*FrontendPlugin).GRPCClient(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, client.(Frontend).Generate)
	})
}

// streaming serves streams until the test ends, and gives what reaches them.
func streaming(t *testing.T, register func(*framed.Server)) *framed.Dialer {
	t.Helper()
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), StreamSocket))
	if err != nil {
		t.Fatal(err)
	}
	server := NewStreamServer()
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(socket) }()
	dialer := NewStreamDialer(socket.Addr().String())
	t.Cleanup(func() {
		dialer.Close()
		server.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dialer
}

// The other methods of these two are not called.
type generatorWorker struct {
	Worker
	generate generateFunc
}

func (g generatorWorker) Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error) {
	return g.generate(ctx, req, emit)
}

type generatorFrontend struct {
	Frontend
	generate generateFunc
}

func (g generatorFrontend) Generate(ctx context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error) {
	return g.generate(ctx, req, emit)
}

func TestGenerateStreamsThenResults(t *testing.T) {
	want := []string{"Once", " upon", " a time"}
	impl := func(_ context.Context, req GenerateRequest, emit func(Chunk) error) (Result, error) {
		for i, text := range want {
			c := Chunk{SlotID: "story", Text: text}
			if i == 0 {
				c.Phases = &Phases{Prefill: time.Millisecond}
			}
			if err := emit(c); err != nil {
				return Result{}, err
			}
		}
		return Result{FinishReason: FinishStop, Usage: Usage{PromptTokens: len(req.Prompt)}}, nil
	}
	overBoth(t, impl, func(t *testing.T, call generateFunc) {
		var got []string
		res, err := call(t.Context(), GenerateRequest{Prompt: "four"}, func(c Chunk) error {
			if (c.Phases != nil) != (len(got) == 0) {
				t.Error("phases belong to the first chunk, and only there")
			}
			got = append(got, c.Text)
			return nil
		})
		if err != nil || res.FinishReason != FinishStop || res.Usage.PromptTokens != 4 || len(got) != 3 {
			t.Errorf("got %q, %+v, %v", got, res, err)
		}
	})
}

func TestGenerateErrorsKeepTheirKind(t *testing.T) {
	impl := func(_ context.Context, _ GenerateRequest, emit func(Chunk) error) (Result, error) {
		if err := emit(Chunk{Text: "some"}); err != nil {
			return Result{}, err
		}
		return Result{}, &Error{Op: "generate", SlotID: "story", Kind: KindContextTooLong, Message: "too long"}
	}
	overBoth(t, impl, func(t *testing.T, call generateFunc) {
		_, err := call(t.Context(), GenerateRequest{}, func(Chunk) error { return nil })
		if KindOf(err) != KindContextTooLong || err.Error() != "generate: slot story: too long" {
			t.Errorf("got %v of kind %v", err, KindOf(err))
		}
	})
}

func TestEmitErrorCancelsTheOtherSide(t *testing.T) {
	stopped := make(chan error, 1)
	impl := func(ctx context.Context, _ GenerateRequest, emit func(Chunk) error) (Result, error) {
		if err := emit(Chunk{Text: "first"}); err != nil {
			return Result{}, err
		}
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return Result{}, ctx.Err()
	}
	mine := errors.New("the client has left")
	overBoth(t, impl, func(t *testing.T, call generateFunc) {
		_, err := call(t.Context(), GenerateRequest{}, func(Chunk) error { return mine })
		if !errors.Is(err, mine) {
			t.Errorf("got %v", err)
		}
		if err := <-stopped; err == nil {
			t.Error("the other side was not cancelled")
		}
	})
}

func TestCallersContextNamesTheKind(t *testing.T) {
	impl := func(ctx context.Context, _ GenerateRequest, emit func(Chunk) error) (Result, error) {
		_ = emit(Chunk{Text: "first"})
		<-ctx.Done()
		return Result{}, ctx.Err()
	}
	overBoth(t, impl, func(t *testing.T, call generateFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := call(ctx, GenerateRequest{}, func(Chunk) error { cancel(); return nil })
		if KindOf(err) != KindCancelled {
			t.Errorf("cancel: got %v of kind %v", err, KindOf(err))
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = call(ctx, GenerateRequest{}, func(Chunk) error { return nil })
		if KindOf(err) != KindDeadline {
			t.Errorf("deadline: got %v of kind %v", err, KindOf(err))
		}
	})
}
