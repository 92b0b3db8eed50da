package slotworker

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared"
)

// The test program is its own worker when this variable is set; its value says
// how the engine behaves.
const workerVariable = "SLOTWORKER_TEST_ENGINE"

func TestMain(m *testing.M) {
	if plan := os.Getenv(intruderVariable); plan != "" {
		os.Exit(intruder(plan))
	}
	if behaviour := os.Getenv(workerVariable); behaviour != "" {
		os.Exit(Main(context.Background(), MainConfig{
			Args:       os.Args[1:],
			OpenEngine: func(dir string) (Engine, error) { return openTestEngine(behaviour, dir) },
			Version:    "test",
		}))
	}
	// The plugin client asks once a second whether a process is still there, and is
	// not to be hurried.
	os.Exit(leak.Main(m, goleak.IgnoreTopFunction("github.com/hashicorp/go-plugin/internal/cmdrunner.pidWait")))
}

// noise is more than any pipe holds, without a newline.
var noise = strings.Repeat("native noise ", 20000)

// openTestEngine prints as native libraries do, past everything that Go knows of.
func openTestEngine(behaviour, dir string) (Engine, error) {
	for fd := 1; fd <= 2; fd++ {
		if _, err := syscall.Write(fd, []byte(noise)); err != nil {
			return nil, err
		}
	}
	if behaviour == "stuck" {
		var never [2]int
		if err := syscall.Pipe(never[:]); err != nil {
			return nil, err
		}
		_, _ = syscall.Read(never[0], make([]byte, 1))
	}
	return nil, shared.Errorf(shared.KindEngineMissing, "no engine in %s", dir)
}

// workerProcess is a worker started as a supervisor does it.
type workerProcess struct {
	worker   shared.Worker
	cmd      *exec.Cmd
	lifeline *os.File // the supervisor's end
	log      string
	state    string
	sockets  string
	ended    chan struct{}
}

func startWorker(t *testing.T, behaviour string) *workerProcess {
	t.Helper()
	return startWorkerAs(t, workerVariable+"="+behaviour)
}

// startWorkerAs starts the test program as the worker that the variable says.
func startWorkerAs(t *testing.T, variable string, args ...string) *workerProcess {
	t.Helper()
	dir := t.TempDir()
	// A socket's path is short.
	sockets, err := os.MkdirTemp("", "ff")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	p := &workerProcess{log: filepath.Join(dir, "worker.log"), sockets: sockets, ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lifeline = ours
	p.state = filepath.Join(dir, "state")
	p.cmd = exec.Command(os.Args[0], append([]string{"--slot", "story", "--state-dir", p.state, "--engine-dir", "engines"}, args...)...)
	handshake := shared.Handshake()
	p.cmd.Env = append(os.Environ(), variable, "PLUGIN_UNIX_SOCKET_DIR="+sockets,
		handshake.MagicCookieKey+"="+handshake.MagicCookieValue)
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stdout, p.cmd.Stderr = stdoutEnd, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{theirs, stdoutEnd, log} {
		_ = f.Close()
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = ours.Close()
		_ = stdout.Close()
	})
	line := make(chan string, 1)
	go func() {
		b := make([]byte, 4096)
		n, _ := stdout.Read(b)
		line <- string(b[:n])
	}()
	path, ok := socketOf(wait(t, line))
	if !ok {
		t.Fatal("no handshake; the log says ", p.logText(t))
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake,
		Plugins:          shared.WorkerPlugins(nil),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		Reattach: &plugin.ReattachConfig{
			Protocol: plugin.ProtocolGRPC, ProtocolVersion: shared.ProtocolVersion,
			Addr: unixAddr(path), Pid: p.cmd.Process.Pid, Test: true,
		},
	})
	rpc, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rpc.Close() })
	raw, err := rpc.Dispense(shared.WorkerPluginName)
	if err != nil {
		t.Fatal(err)
	}
	p.worker = raw.(shared.Worker)
	return p
}

func (p *workerProcess) logText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (p *workerProcess) socketsLeft(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(p.sockets, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func prefetchOf(t *testing.T) shared.PrefetchRequest {
	t.Helper()
	spec := shared.SlotSpec{SlotID: "story", ModelPath: testModel, Transfer: shared.TransferMmap}
	_, id := identityOf(t, spec)
	return shared.PrefetchRequest{Spec: spec, Plan: shared.PrefetchPlan{SlotID: "story"}, Expected: id}
}

func TestWorkerProcessKeepsNativeNoiseInItsLog(t *testing.T) {
	p := startWorker(t, "noisy")
	info, err := p.worker.Describe(t.Context())
	if err != nil || info.PID != p.cmd.Process.Pid || info.Version != "test" {
		t.Fatalf("describe: %+v, %v", info, err)
	}
	_, err = p.worker.Prefetch(t.Context(), prefetchOf(t), nil)
	if shared.KindOf(err) != shared.KindEngineMissing || !strings.Contains(err.Error(), "no engine in engines") {
		t.Errorf("got %v", err)
	}
	if got := strings.Count(p.logText(t), noise); got != 2 {
		t.Errorf("the log holds the noise %d times instead of once for each fd", got)
	}
	if _, err := p.worker.Heartbeat(t.Context()); err != nil {
		t.Errorf("after the noise: %v", err)
	}
}

func TestWorkerProcessEndsWithItsLifeline(t *testing.T) {
	for _, behaviour := range []string{"idle", "stuck"} {
		t.Run(behaviour, func(t *testing.T) {
			p := startWorker(t, behaviour)
			if len(p.socketsLeft(t)) != 2 {
				t.Fatalf("sockets: %v", p.socketsLeft(t))
			}
			called := make(chan error, 1)
			if behaviour == "stuck" {
				req := prefetchOf(t)
				go func() { _, err := p.worker.Prefetch(context.WithoutCancel(t.Context()), req, nil); called <- err }()
				eventually(t, func() bool { return strings.Contains(p.logText(t), noise) })
			}
			if err := p.lifeline.Close(); err != nil {
				t.Fatal(err)
			}
			wait(t, p.ended)
			if left := p.socketsLeft(t); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if behaviour == "stuck" {
				if err := wait(t, called); shared.KindOf(err) != shared.KindWorkerLost {
					t.Errorf("the call under way: %v", err)
				}
			}
		})
	}
}

// TestPeopleAreTold: a worker started by hand says what it is and ends.
func TestPeopleAreTold(t *testing.T) {
	handshake := shared.Handshake()
	cookie := handshake.MagicCookieKey + "=" + handshake.MagicCookieValue
	args := []string{"--slot", "story", "--state-dir", t.TempDir(), "--engine-dir", "engines"}
	tests := []struct {
		name string
		args []string
		env  []string
		says string
	}{
		{"no arguments", nil, []string{cookie}, "--slot ID --state-dir DIR --engine-dir DIR"},
		{"unknown argument", append(slices.Clone(args), "--nonsense"), []string{cookie}, "nonsense"},
		{"no cookie", args, nil, "the supervisor starts it"},
		{"no lifeline", args, []string{cookie}, "lifeline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], tt.args...)
			cmd.Env = append(append(os.Environ(), workerVariable+"=idle"), tt.env...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(stderr.String(), tt.says) || stdout.Len() != 0 {
				t.Errorf("got %v, %q on stderr, %q on stdout", err, stderr.String(), stdout.String())
			}
		})
	}
}

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	look := make(chan time.Time)
	done := make(chan struct{})
	go func() { watchLog(log, 100, look); close(done) }()
	write := func(s string) {
		t.Helper()
		if _, err := log.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	content := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write(strings.Repeat("x", 100))
	look <- time.Time{}
	write("y")
	look <- time.Time{} // the look before has ended
	if got := len(content()); got != 0 && got != 101 {
		t.Errorf("%d bytes", got)
	}
	look <- time.Time{}
	write("new")
	close(look)
	wait(t, done)
	if got := content(); got != "new" {
		t.Errorf("the log holds %q", got)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSocketOfHandshake(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|unix|/run/ff/s|grpc|\n":    "/run/ff/s",
		"1|1|unix|/run/ff/s|grpc||true": "/run/ff/s",
		"1|1|tcp|127.0.0.1:1|grpc|":     "",
		"hello":                         "",
		"":                              "",
	} {
		if got, _ := socketOf(line); got != want {
			t.Errorf("%q: got %q", line, got)
		}
	}
}

func unixAddr(path string) *net.UnixAddr { return &net.UnixAddr{Name: path, Net: "unix"} }
