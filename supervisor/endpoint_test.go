package supervisor

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared"
)

// serveTest opens an endpoint in a new state directory. The end of the test
// checks that it leaves nothing.
func serveTest(t *testing.T) string {
	t.Helper()
	before := goleak.IgnoreCurrent()
	state, err := OpenStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := Serve(EndpointConfig{State: state, Frontend: testFrontend{}, Check: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
		for _, path := range []string{filepath.Join(state.Path(), endpointFile), state.work(frontendSocket), state.work(streamSocket)} {
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("%s is left behind: %v", path, err)
			}
		}
		if err := state.Close(); err != nil {
			t.Error(err)
		}
		leak.None(t, before)
	})
	return state.Path()
}

func attach(t *testing.T, dir string) (shared.Frontend, func()) {
	t.Helper()
	frontend, end, err := Attach(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return frontend, end
}

func mustList(t *testing.T, f shared.Frontend) {
	t.Helper()
	list, err := f.ListSlots(t.Context())
	if err != nil || len(list.Slots) != 1 || list.Slots[0].SlotID != "story" {
		t.Fatalf("got %+v, %v", list, err)
	}
}

func TestAttach(t *testing.T) {
	dir := serveTest(t)
	one, endOne := attach(t, dir)
	two, endTwo := attach(t, dir)
	mustList(t, one)
	mustList(t, two)
	endOne()
	endOne()
	mustList(t, two)
	if _, err := one.ListSlots(t.Context()); err == nil {
		t.Error("a closed attachment still works")
	}
	endTwo()
}

func TestEndpointIsPrivate(t *testing.T) {
	dir := serveTest(t)
	for path, want := range map[string]os.FileMode{
		filepath.Join(dir, endpointFile):            0o600,
		filepath.Join(dir, workDir, frontendSocket): 0o600,
		filepath.Join(dir, workDir, streamSocket):   0o600,
		filepath.Join(dir, workDir):                 0o700,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestLongPromptPasses(t *testing.T) {
	frontend, end := attach(t, serveTest(t))
	defer end()
	n, err := frontend.Tokenize(t.Context(), shared.TokenizeRequest{Text: strings.Repeat("x", 20<<20)})
	if err != nil || n[0] != 20<<20 {
		t.Errorf("got %v, %v", n, err)
	}
	_, err = frontend.Tokenize(t.Context(), shared.TokenizeRequest{Text: strings.Repeat("x", shared.MaxMessageBytes)})
	if shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("more than the limit gave %v of kind %v", err, shared.KindOf(err))
	}
}

// A go-plugin client that knows nothing of Attach asks for the shutdown of the
// server when it is closed. That must not concern anybody else.
func TestClientsShutdownEndsNobodyElse(t *testing.T) {
	dir := serveTest(t)
	other, end := attach(t, dir)
	defer end()
	streaming := make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := other.Generate(ctx, shared.GenerateRequest{}, func(shared.Chunk) error {
			close(streaming)
			return nil
		})
		ended <- err
	}()
	<-streaming

	data, err := os.ReadFile(filepath.Join(dir, endpointFile))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := parseEndpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	a := &attachment{rec: rec, closed: make(chan struct{})}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.FrontendPlugins(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions:  shared.DialOptions(),
		Reattach: &plugin.ReattachConfig{
			Protocol: rec.Protocol, ProtocolVersion: rec.ProtocolVersion, Test: true,
			Addr:         &net.UnixAddr{Net: rec.Network, Name: rec.Address},
			ReattachFunc: a.runner,
		},
	})
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := protocol.Ping(); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := protocol.Close(); err != nil { // calls Shutdown
		t.Error(err)
	}
	client.Kill()
	a.close()

	mustList(t, other)
	select {
	case err := <-ended:
		t.Errorf("the other client's request ended: %v", err)
	default:
	}
	third, endThird := attach(t, dir)
	mustList(t, third)
	endThird()
	cancel()
	if err := <-ended; shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v", err)
	}
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	state := openTestStateDir(t, t.TempDir())
	e, err := Serve(EndpointConfig{State: state, Frontend: testFrontend{}})
	if err != nil {
		t.Fatal(err)
	}
	frontend, end := attach(t, state.Path())
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := frontend.Generate(t.Context(), shared.GenerateRequest{}, func(shared.Chunk) error {
			cancel()
			return nil
		})
		ended <- err
	}()
	<-ctx.Done()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-ended; shared.KindOf(err) != shared.KindUnavailable {
		t.Errorf("got %v of kind %v", err, shared.KindOf(err))
	}
}

// TestRemovedEndpointIsBack has somebody clean up the state directory of a running
// supervisor.
func TestRemovedEndpointIsBack(t *testing.T) {
	dir := serveTest(t)
	old, endOld := attach(t, dir)
	defer endOld()
	for _, path := range []string{endpointFile, filepath.Join(workDir, frontendSocket), filepath.Join(workDir, streamSocket)} {
		if err := os.Remove(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	generate := func(f shared.Frontend) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		chunks := 0
		_, err := f.Generate(ctx, shared.GenerateRequest{}, func(shared.Chunk) error {
			chunks++
			cancel()
			return nil
		})
		if chunks > 0 {
			return nil
		}
		return err
	}
	// Who is attached goes on before anything has been noticed.
	if err := generate(old); err != nil {
		t.Error(err)
	}
	ctx := within(t, 20*time.Second)
	for found := false; !found; {
		fresh, end, err := Attach(ctx, dir, nil)
		if err == nil {
			mustList(t, fresh)
			if err := generate(fresh); err != nil {
				t.Error(err)
			}
			end()
		}
		_, gone := os.Lstat(filepath.Join(dir, workDir, streamSocket))
		if found = err == nil && gone == nil; !found && ctx.Err() != nil {
			t.Fatalf("not found again: %v, %v", err, gone)
		}
		runtime.Gosched()
	}
	mustList(t, old)
}

func TestAttachToNobody(t *testing.T) {
	mine, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	dead := mine
	dead.Start += "1"
	record := func(change func(*endpointRecord)) string {
		rec := endpointRecord{
			processID: mine, Protocol: plugin.ProtocolGRPC, ProtocolVersion: shared.ProtocolVersion,
			Network: "unix", Address: "/nowhere/frontend.sock",
		}
		change(&rec)
		data, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, test := range map[string]struct {
		content string
		kind    shared.Kind
		text    string
	}{
		"no file":          {"", shared.KindUnavailable, "no supervisor is running in DIR (start one with firstframe serve)"},
		"a dead one":       {record(func(r *endpointRecord) { r.processID = dead }), shared.KindUnavailable, "no supervisor is running in DIR"},
		"a cut file":       {`{"pid": 1`, shared.KindUnavailable, "is damaged"},
		"no process":       {record(func(r *endpointRecord) { r.PID = 0 }), shared.KindUnavailable, "names no process"},
		"another network":  {record(func(r *endpointRecord) { r.Network = "tcp" }), shared.KindUnavailable, "names no socket"},
		"another protocol": {record(func(r *endpointRecord) { r.Protocol = "netrpc" }), shared.KindUnavailable, "netrpc"},
		"another version":  {record(func(r *endpointRecord) { r.ProtocolVersion++ }), shared.KindProtocol, "use the same version"},
		"no socket":        {record(func(*endpointRecord) {}), shared.KindUnavailable, "/nowhere/frontend.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if test.content != "" {
				if err := os.WriteFile(filepath.Join(dir, endpointFile), []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := Attach(t.Context(), dir, nil)
			want := strings.ReplaceAll(test.text, "DIR", dir)
			if err == nil || shared.KindOf(err) != test.kind || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v of kind %v, want %q", err, shared.KindOf(err), want)
			}
		})
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Add([]byte(`{"pid":1,"start":"a/1","protocol":"grpc","protocol_version":1,"network":"unix","address":"/x"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseEndpoint(data)
		if err == nil && (rec.PID <= 0 || rec.Address == "" || rec.Network != "unix" || rec.Protocol != plugin.ProtocolGRPC) {
			t.Errorf("accepted %+v", rec)
		}
	})
}

func BenchmarkAttach(b *testing.B) {
	state, err := OpenStateDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	e, err := Serve(EndpointConfig{State: state, Frontend: testFrontend{}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		frontend, end, err := Attach(b.Context(), state.Path(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := frontend.ListSlots(b.Context()); err != nil {
			b.Fatal(err)
		}
		end()
	}
	if err := e.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}
