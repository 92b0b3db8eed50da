package supervisor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

func TestWorkerThatDoesNotStartTellsWhy(t *testing.T) {
	for _, test := range []struct {
		slot string
		kind shared.Kind
		text string
		tail string
	}{
		{"crash", shared.KindWorkerLost, "exit code 3", "error: the floor is missing"},
		{"panic", shared.KindWorkerLost, "exit code 2", "panic: the floor is missing"},
		{"assert", shared.KindWorkerLost, "GGML_ASSERT(a == b)", "/build/ggml.c:12: GGML_ASSERT(a == b) failed"},
		{"brief", shared.KindWorkerLost, "exit code 4", ""},
		{"garbage", shared.KindProtocol, "llama_model_loader: hello", ""},
		{"flood", shared.KindProtocol, "instead of the handshake", strings.Repeat("x", tailLineMax)},
	} {
		t.Run(test.slot, func(t *testing.T) {
			p, err := newTestLauncher(t).Launch(t.Context(), test.slot, "cpu", "")
			if err == nil {
				t.Fatalf("it started: %v", p)
			}
			e := shared.AsError(err, "", "")
			if e.Kind != test.kind || e.SlotID != test.slot || e.Op != "launch" || !strings.Contains(e.Error(), test.text) {
				t.Errorf("got %v of kind %v", err, e.Kind)
			}
			if test.tail != "" && (len(e.LogTail) == 0 || e.LogTail[0] != test.tail) {
				t.Errorf("the log tail is %q", e.LogTail)
			}
			if len(e.LogTail) > tailLines+1 {
				t.Errorf("the log tail has %d lines", len(e.LogTail))
			}
		})
	}
}

func TestMissingExecutable(t *testing.T) {
	l := newTestLauncher(t, func(c *LauncherConfig) { c.Executable = "/nowhere/firstframe" })
	if _, err := l.Launch(t.Context(), "ok", "cpu", ""); err == nil || !strings.Contains(err.Error(), "/nowhere/firstframe") {
		t.Errorf("got %v", err)
	}
}

// launching starts a launch that will not succeed, and gives it once it has got
// as far as ready says.
func launching(t *testing.T, ctx context.Context, l *WorkerLauncher, slotID string, ready func(*workerProcess) bool) (*workerProcess, <-chan error) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		_, err := l.Launch(ctx, slotID, "cpu", "")
		failed <- err
	}()
	var found *workerProcess
	eventually(t, slotID+" is started", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for p := range l.live {
			if p.slotID == slotID && p.PID() != 0 && ready(p) {
				found = p
			}
		}
		return found != nil
	})
	return found, failed
}

func started(*workerProcess) bool { return true }

func connected(p *workerProcess) bool {
	select {
	case <-p.connected:
		return true
	default:
		return false
	}
}

func TestHangingStartDelaysNobody(t *testing.T) {
	l := newTestLauncher(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	_, failed := launching(t, ctx, l, "hang", started)
	other := launch(t, l, "ok")
	select {
	case err := <-failed:
		t.Errorf("the hanging start is over: %v", err)
	default:
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("the cancelled launch succeeded")
	}
	other.Stop(within(t, 20*time.Second), 0)
}

func TestStartTimeout(t *testing.T) {
	for _, slot := range []string{"hang", "mute"} {
		l := newTestLauncher(t, func(c *LauncherConfig) { c.StartTimeout = 300 * time.Millisecond })
		_, err := l.Launch(t.Context(), slot, "cpu", "")
		if shared.KindOf(err) != shared.KindUnavailable || !strings.Contains(err.Error(), "did not answer within 300ms") {
			t.Errorf("%s: got %v of kind %v", slot, err, shared.KindOf(err))
		}
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	for slot, ready := range map[string]func(*workerProcess) bool{"hang": started, "mute": connected} {
		t.Run(slot, func(t *testing.T) {
			l := newTestLauncher(t)
			ctx, cancel := context.WithCancel(t.Context())
			p, failed := launching(t, ctx, l, slot, ready)
			id, err := identify(p.PID())
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-failed; shared.KindOf(err) != shared.KindCancelled {
				t.Errorf("got %v of kind %v", err, shared.KindOf(err))
			}
			if id.alive() {
				t.Error("the process is still there")
			}
		})
	}
}

func TestCancelledBeforeItIsStarted(t *testing.T) {
	l := newTestLauncher(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Launch(ctx, "ok", "cpu", ""); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("got %v of kind %v", err, shared.KindOf(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.live) != 0 {
		t.Error("it was started all the same")
	}
}
