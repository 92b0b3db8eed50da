package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Names under which this test binary starts itself as another process.
const (
	asWorker     = "test-worker"
	asSupervisor = "test-supervisor"
)

// quickExit keeps the race detector from delaying a worker's exit by a second.
const quickExit = "GORACE=atexit_sleep_ms=0"

// runAsTestProcess takes over when this binary was started as a worker or as a
// supervisor, and does not return then.
func runAsTestProcess(args []string) {
	if len(args) < 2 {
		return
	}
	if name, ok := strings.CutPrefix(args[1], DescribeFlag); ok {
		describeTestDevice(name)
	}
	if strings.HasPrefix(args[1], "--slot=") { // the worker for a device needs no subcommand
		args = append([]string{args[0], asWorker}, args[1:]...)
	}
	switch args[1] {
	case asWorker:
		for _, arg := range args {
			if slotID, ok := strings.CutPrefix(arg, "--slot="); ok {
				runTestWorker(slotID)
			}
		}
		os.Exit(0)
	case asSupervisor:
		if err := runTestSupervisor(args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// runTestWorker is a worker without an engine. What it does wrong is the first
// part of its slot's id, the rest only tells several of them apart.
func runTestWorker(slotID string) {
	mode, _, _ := strings.Cut(slotID, "/")
	switch mode {
	case "crash":
		fmt.Fprintln(os.Stderr, "loading")
		fmt.Fprintln(os.Stderr, "error: the floor is missing")
		os.Exit(3)
	case "assert":
		fmt.Fprintln(os.Stderr, "loading")
		fmt.Fprintln(os.Stderr, "/build/ggml.c:12: GGML_ASSERT(a == b) failed")
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	case "panic":
		panic("the floor is missing")
	case "garbage":
		fmt.Println("llama_model_loader: hello")
		select {}
	case "flood":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
		select {}
	case "hang":
		select {}
	case "brief":
		fmt.Printf("1|%d|unix|%s/plugin1|grpc|\n", shared.ProtocolVersion, os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		os.Exit(4)
	case "busy":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
		go func() {
			for {
				_ = time.Now()
			}
		}()
	default:
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(lifelineFD, "lifeline"))
			os.Exit(0)
		}()
	}
	if err := shared.ServeWorker(&testWorker{mode: mode, slotID: slotID}, hclog.NewNullLogger()); err != nil {
		panic(err)
	}
	if mode == "deaf" {
		select {}
	}
}

// testWorker is what the process serves. Methods that no test calls are missing.
type testWorker struct {
	shared.Worker
	mode   string
	slotID string
	beats  atomic.Uint64
}

// Describe tells the environment.
func (w *testWorker) Describe(context.Context) (shared.WorkerInfo, error) {
	return shared.WorkerInfo{PID: os.Getpid(), Version: strings.Join(os.Environ(), "\n"), Engine: strings.Join(os.Args, " ")}, nil
}

// Heartbeat answers unless the test wants a worker that never does.
func (w *testWorker) Heartbeat(ctx context.Context) (shared.HeartbeatResult, error) {
	if w.mode == "mute" {
		<-ctx.Done()
		return shared.HeartbeatResult{}, ctx.Err()
	}
	n := w.beats.Add(1)
	switch w.mode {
	case "stuck":
		return shared.HeartbeatResult{Progress: 1, Running: 1}, nil
	case "endless":
		return shared.HeartbeatResult{Progress: n, Running: 1}, nil
	}
	return shared.HeartbeatResult{Progress: 1}, nil
}

// Tokenize writes as a native library does: past Go, much, and without a newline.
func (w *testWorker) Tokenize(context.Context, shared.TokenizeRequest) ([]int32, error) {
	noise := bytes.Repeat([]byte("n"), 2<<20)
	for _, fd := range []int{1, 2} {
		for rest := noise; len(rest) > 0; {
			n, err := syscall.Write(fd, rest)
			if err != nil {
				return nil, err
			}
			rest = rest[n:]
		}
	}
	return []int32{int32(len(noise))}, nil
}

// ApplyTemplate starts a process that inherits the standard output and error;
// when asked, in a session of its own.
func (w *testWorker) ApplyTemplate(_ context.Context, req shared.ApplyTemplateRequest) (string, error) {
	child := exec.Command("/bin/sleep", "600")
	child.Stdout, child.Stderr = os.NewFile(1, "out"), os.NewFile(2, "err")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: req.AddGenerationPrompt}
	if err := child.Start(); err != nil {
		return "", err
	}
	return fmt.Sprint(child.Process.Pid), nil
}

// Drain says that it cancelled one request.
func (w *testWorker) Drain(ctx context.Context, deadline time.Duration) (int, error) {
	if w.mode == "stuck" || w.mode == "endless" {
		select {} // in native code nothing can be cancelled
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(min(deadline, 10*time.Millisecond)):
	}
	// Not to os.Stderr: go-plugin has replaced it, and may not get to sending what
	// is written last.
	if _, err := syscall.Write(2, []byte("drained\n")); err != nil {
		return 0, err
	}
	return 1, nil
}

// Generate goes on until it is cancelled.
func (w *testWorker) Generate(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	if err := emit(shared.Chunk{SlotID: w.slotID, Text: "Once"}); err != nil {
		return shared.Result{}, err
	}
	<-ctx.Done()
	return shared.Result{}, ctx.Err()
}

// testSupervisorReport is what a test supervisor tells the test on its standard output.
type testSupervisorReport struct {
	Workers map[string]int `json:"workers"`
}

// runTestSupervisor launches three workers, serves an endpoint and waits to be killed.
func runTestSupervisor(dir string) error {
	state, err := OpenStateDir(dir)
	if err != nil {
		return err
	}
	launcher, err := NewWorkerLauncher(LauncherConfig{Args: []string{asWorker}, State: state, Env: []string{quickExit}})
	if err != nil {
		return err
	}
	report := testSupervisorReport{Workers: map[string]int{}}
	for _, id := range []string{"ok/0", "busy/0", "deaf/0"} {
		p, err := launcher.Launch(context.Background(), id, "")
		if err != nil {
			return err
		}
		report.Workers[id] = p.PID()
	}
	if _, err := Serve(EndpointConfig{State: state, Frontend: testFrontend{}}); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	select {}
}

// testFrontend answers what the endpoint's tests ask.
type testFrontend struct{ shared.Frontend }

// ListSlots gives one slot.
func (testFrontend) ListSlots(context.Context) (shared.SlotList, error) {
	return shared.SlotList{Slots: []shared.SlotInfo{{SlotID: "story", Model: "storyteller"}}}, nil
}

// Generate streams a chunk and goes on until it is cancelled.
func (testFrontend) Generate(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	if err := emit(shared.Chunk{SlotID: "story", Text: "Once"}); err != nil {
		return shared.Result{}, err
	}
	<-ctx.Done()
	return shared.Result{}, ctx.Err()
}

// Tokenize gives back how much text arrived.
func (testFrontend) Tokenize(_ context.Context, req shared.TokenizeRequest) ([]int32, error) {
	return []int32{int32(len(req.Text))}, nil
}
