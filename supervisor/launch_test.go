package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared"
)

// newTestLauncher gives a launcher of test workers. The end of the test checks
// that it leaves no process, goroutine or file.
func newTestLauncher(t *testing.T, change ...func(*LauncherConfig)) *WorkerLauncher {
	t.Helper()
	before := goleak.IgnoreCurrent()
	state, err := OpenStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := LauncherConfig{
		Args: []string{asWorker}, State: state, Env: []string{quickExit},
		// On a busy machine a good worker may take some of these.
		StartTimeout: 2 * time.Minute, StopGrace: 20 * time.Second,
	}
	for _, f := range change {
		f(&cfg)
	}
	l, err := NewWorkerLauncher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(state.work())
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		if err := state.Close(); err != nil {
			t.Error(err)
		}
		leak.None(t, before)
	})
	return l
}

// impatient gives workers that will not end little time to.
func impatient(c *LauncherConfig) { c.StopGrace = 100 * time.Millisecond }

func launch(t *testing.T, l *WorkerLauncher, slotID string) *workerProcess {
	t.Helper()
	p, err := l.Launch(t.Context(), slotID, "cpu", "")
	if err != nil {
		t.Fatal(err)
	}
	return p.(*workerProcess)
}

// within gives a context for something that has to happen soon.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition that nothing tells of.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func awaitDone(t *testing.T, p Process) ExitInfo {
	t.Helper()
	select {
	case <-p.Done():
	case <-within(t, 20*time.Second).Done():
		t.Fatalf("process %d does not end", p.PID())
	}
	return p.Exit()
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func TestLaunchAndStop(t *testing.T) {
	l := newTestLauncher(t)
	p := launch(t, l, "ok/1")
	info, err := p.Worker().Describe(t.Context())
	if err != nil || info.PID != p.PID() {
		t.Fatalf("got %+v, %v from process %d", info, err, p.PID())
	}
	id, err := identify(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if rec := readRecord(p.dir); rec.processID != id || rec.SlotID != "ok/1" {
		t.Errorf("recorded %+v of %+v", rec, id)
	}
	p.Stop(within(t, 20*time.Second), 20*time.Second)
	if exit := awaitDone(t, p); exit.Code != 0 || exit.Signal != "" || !slices.Contains(exit.LogTail, "drained") {
		t.Errorf("got %+v, want a clean exit after a drain", exit)
	}
	if id.alive() {
		t.Error("the process is still there")
	}
	if _, err := p.Worker().Heartbeat(t.Context()); shared.KindOf(err) != shared.KindWorkerLost {
		t.Errorf("a call after the end gave %v of kind %v", err, shared.KindOf(err))
	}
}

func TestStopWithoutDrainDoesNotDrain(t *testing.T) {
	p := launch(t, newTestLauncher(t), "ok")
	p.Stop(within(t, 20*time.Second), 0)
	if exit := awaitDone(t, p); slices.Contains(exit.LogTail, "drained") {
		t.Errorf("got %+v", exit)
	}
}

func TestKilledWorker(t *testing.T) {
	l := newTestLauncher(t)
	p, other := launch(t, l, "ok/1"), launch(t, l, "ok/2")
	streaming := make(chan struct{})
	lost := make(chan error, 1)
	go func() {
		_, err := p.Worker().Generate(context.WithoutCancel(t.Context()), shared.GenerateRequest{}, func(shared.Chunk) error {
			close(streaming)
			return nil
		})
		lost <- err
	}()
	<-streaming
	signalTo(t, p.PID(), syscall.SIGKILL)
	if exit := awaitDone(t, p); exit.Signal != "killed" || exit.Code != -1 {
		t.Errorf("got %+v", exit)
	}
	if err := <-lost; shared.KindOf(err) != shared.KindWorkerLost {
		t.Errorf("the request ended with %v of kind %v", err, shared.KindOf(err))
	}
	if _, err := other.Worker().Heartbeat(t.Context()); err != nil {
		t.Errorf("the other worker: %v", err)
	}
}

func TestWorkerThatDoesNotExitIsKilled(t *testing.T) {
	p := launch(t, newTestLauncher(t, impatient), "deaf")
	p.Stop(within(t, 20*time.Second), time.Second)
	if exit := awaitDone(t, p); exit.Signal != "killed" {
		t.Errorf("got %+v", exit)
	}
}

func TestConcurrentStops(t *testing.T) {
	p := launch(t, newTestLauncher(t), "ok")
	var stops sync.WaitGroup
	for range 4 {
		stops.Go(func() { p.Stop(within(t, 20*time.Second), 50*time.Millisecond) })
	}
	stops.Wait()
	awaitDone(t, p)
}

func TestGrandchildDoesNotDelayTheEnd(t *testing.T) {
	for name, ownSession := range map[string]bool{"of the group": false, "of its own session": true} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, newTestLauncher(t), "ok")
			pid, err := p.Worker().ApplyTemplate(t.Context(), shared.ApplyTemplateRequest{AddGenerationPrompt: ownSession})
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			id, err := identify(child)
			if err != nil {
				t.Fatal(err)
			}
			signalTo(t, p.PID(), syscall.SIGKILL)
			awaitDone(t, p)
			if ownSession {
				signalTo(t, child, syscall.SIGKILL)
			}
			if err := id.awaitGone(within(t, 20*time.Second)); err != nil {
				t.Errorf("the worker's child outlives it: %v", err)
			}
		})
	}
}

func TestLifelineEndsTheWorker(t *testing.T) {
	l := newTestLauncher(t)
	p, later := launch(t, l, "ok/1"), launch(t, l, "ok/2")
	if err := p.lifeline.Close(); err != nil {
		t.Fatal(err)
	}
	// It does not, if a process that was started later had inherited the other end.
	if exit := awaitDone(t, p); exit.Code != 0 {
		t.Errorf("got %+v", exit)
	}
	if _, err := later.Worker().Heartbeat(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNativeOutputNeitherBlocksNorGetsLost(t *testing.T) {
	p := launch(t, newTestLauncher(t), "ok")
	n, err := p.Worker().Tokenize(within(t, 20*time.Second), shared.TokenizeRequest{})
	if err != nil || len(n) != 1 {
		t.Fatalf("got %v, %v", n, err)
	}
	path := p.log.Name()
	p.Stop(within(t, 20*time.Second), 0)
	info, err := os.Stat(path)
	if err != nil || info.Size() < 2*int64(n[0]) {
		t.Errorf("the log has %d of %d bytes, %v", info.Size(), 2*n[0], err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the log's mode is %o", info.Mode().Perm())
	}
}

func TestWorkersEnvironment(t *testing.T) {
	t.Setenv("FIRSTFRAME_API_KEY", "secret")
	l := newTestLauncher(t, func(c *LauncherConfig) {
		c.Env = append(c.Env, "EXTRA=1")
		c.EngineDir = "/engine"
		c.Args = append(c.Args, "--more")
	})
	p := launch(t, l, "ok/1")
	info, err := p.Worker().Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range strings.Split(info.Version, "\n") {
		name, value, _ := strings.Cut(v, "=")
		names = append(names, name)
		if strings.Contains(value, "secret") {
			t.Errorf("the worker knows %s", v)
		}
	}
	slices.Sort(names)
	want := []string{"EXTRA", "FIRSTFRAME_PLUGIN", "GGML_NO_BACKTRACE", "GLIBC_TUNABLES", "GORACE", "MALLOC_MMAP_THRESHOLD_", "PATH", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT",
		"PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "TMPDIR"}
	if !slices.Equal(names, want) {
		t.Errorf("the worker has %q, want %q", names, want)
	}
	if args := "test-worker --more --slot=ok/1 --state-dir=" + l.cfg.State.SlotDir("ok/1") + " --engine-dir=/engine --read=/"; !strings.HasSuffix(info.Engine, args) {
		t.Errorf("the worker's arguments are %q, want %q", info.Engine, args)
	}
}

func TestTwentyLaunchesAtOnce(t *testing.T) {
	l := newTestLauncher(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id := fmt.Sprintf("ok/%d", i)
			p, err := l.Launch(t.Context(), id, "cpu", "")
			if err != nil {
				t.Error(err)
				return
			}
			info, err := p.Worker().Describe(t.Context())
			if err != nil || info.PID != p.PID() {
				t.Errorf("%s: got %+v, %v", id, info, err)
			}
			p.Stop(within(t, 20*time.Second), 0)
		})
	}
	all.Wait()
}

func TestCloseEndsWhatRuns(t *testing.T) {
	l := newTestLauncher(t)
	p := launch(t, l, "busy")
	_, failed := launching(t, context.WithoutCancel(t.Context()), l, "hang", started)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if exit := awaitDone(t, p); exit.Signal != "killed" {
		t.Errorf("got %+v", exit)
	}
	if err := <-failed; shared.KindOf(err) != shared.KindShuttingDown {
		t.Errorf("got %v of kind %v", err, shared.KindOf(err))
	}
	if _, err := l.Launch(t.Context(), "ok", "cpu", ""); shared.KindOf(err) != shared.KindShuttingDown {
		t.Errorf("a start after the end: %v", err)
	}
}

func TestLogIsAppendedAndSetAside(t *testing.T) {
	l := newTestLauncher(t)
	path := l.cfg.State.LogPath("crash/../x")
	if filepath.Dir(path) != filepath.Join(l.cfg.State.Path(), logDir) {
		t.Fatalf("a slot's name leads out of the log directory: %s", path)
	}
	path = l.cfg.State.LogPath("crash")
	if err := os.WriteFile(path, []byte("GGML_ASSERT of an earlier process\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := l.Launch(t.Context(), "crash", "cpu", "")
	if tail := shared.AsError(err, "", "").LogTail; len(tail) != 2 || tail[0] != "error: the floor is missing" {
		t.Errorf("the log tail is %q", tail)
	}
	if err := os.Truncate(path, maxLogBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err = l.Launch(t.Context(), "crash", "cpu", ""); err == nil {
		t.Fatal("it started")
	}
	now, err := os.Stat(path)
	old, oldErr := os.Stat(path + ".1")
	if err != nil || oldErr != nil || now.Size() > 1000 || old.Size() != maxLogBytes+1 {
		t.Errorf("now %v, %v; set aside %v, %v", now, err, old, oldErr)
	}
}

func TestLauncherConfigIsChecked(t *testing.T) {
	state := &StateDir{}
	for _, cfg := range []LauncherConfig{
		{},
		{State: state, StartTimeout: -1},
		{State: state, StopGrace: -1},
		{State: state, Env: []string{"NOVALUE"}},
		{State: state, Env: []string{"=x"}},
	} {
		if _, err := NewWorkerLauncher(cfg); shared.KindOf(err) != shared.KindConfig {
			t.Errorf("%+v gave %v", cfg, err)
		}
	}
}
