package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

type testSupervisor struct {
	cmd     *exec.Cmd
	dir     string
	workers map[string]processID
}

// startTestSupervisor starts a supervisor in a process of its own.
func startTestSupervisor(t *testing.T) *testSupervisor {
	t.Helper()
	s := &testSupervisor{dir: t.TempDir(), workers: map[string]processID{}}
	s.cmd = exec.Command(os.Args[0], asSupervisor, s.dir)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		for id, p := range s.workers {
			if err := p.awaitGone(within(t, 20*time.Second)); err != nil {
				t.Errorf("%s outlives its supervisor", id)
			}
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var report testSupervisorReport
	if err := json.Unmarshal(line, &report); err != nil {
		t.Fatal(err)
	}
	for id, pid := range report.Workers {
		if s.workers[id], err = identify(pid); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// stopProcess sends SIGSTOP and returns when every thread has obeyed.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	signalTo(t, pid, syscall.SIGSTOP)
	eventually(t, "the process is stopped", func() bool {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		if err != nil || len(threads) == 0 {
			return false
		}
		for _, path := range threads {
			text, err := os.ReadFile(path)
			state, _, parseErr := parseProcStat(string(text))
			if err != nil || parseErr != nil || state != "T" {
				return false
			}
		}
		return true
	})
}

func TestKilledSupervisorLeavesNoWorker(t *testing.T) {
	s := startTestSupervisor(t)
	stopped := s.workers["ok/0"].PID
	stopProcess(t, stopped)
	if _, err := OpenStateDir(s.dir); shared.KindOf(err) != shared.KindConfig {
		t.Errorf("a second supervisor got %v", err)
	}

	killed := time.Now()
	signalTo(t, s.cmd.Process.Pid, syscall.SIGKILL)
	// It takes a few hundredths of a second. Without the parent-death signal the
	// stopped one would stay for ever, so that a bound for busy machines will do.
	deadline := within(t, 20*time.Second)
	for id, p := range s.workers {
		if err := p.awaitGone(deadline); err != nil {
			t.Errorf("%s is not gone", id)
		}
	}
	t.Logf("all workers were gone after %v", time.Since(killed))
	if err := s.cmd.Wait(); err == nil {
		t.Error("the supervisor was not killed")
	}
	if _, _, err := Attach(t.Context(), s.dir, nil); shared.KindOf(err) != shared.KindUnavailable {
		t.Errorf("attaching to the dead supervisor gave %v", err)
	}

	// Killed processes leave sockets and records; the next supervisor does not.
	state := openTestStateDir(t, s.dir)
	found, err := state.Reap(t.Context())
	if err != nil || len(found) != len(s.workers)+3 {
		t.Errorf("reaped %+v, %v", found, err)
	}
	left, err := os.ReadDir(state.work())
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, endpointFile)); !os.IsNotExist(err) {
		t.Errorf("the endpoint's file: %v", err)
	}
}

// What survives all the same, as on a system without a parent-death signal, is
// killed by the next supervisor.
func TestReapKillsSurvivors(t *testing.T) {
	state := openTestStateDir(t, t.TempDir())
	survivor := exec.Command("/bin/sleep", "600")
	survivor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := survivor.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- survivor.Wait() }()
	id, err := identify(survivor.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state.work("1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeRecord(state.work("1"), workerRecord{processID: id, SlotID: "story"}); err != nil {
		t.Fatal(err)
	}
	found, err := state.Reap(within(t, 20*time.Second))
	if err != nil || len(found) != 1 || !found[0].Killed || found[0].PID != id.PID || found[0].SlotID != "story" {
		t.Errorf("got %+v, %v", found, err)
	}
	if err := <-ended; err == nil {
		t.Error("it was not killed")
	}
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	// The collector would close forgotten files.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l := newTestLauncher(t)
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	round := func() {
		for _, slot := range []string{"crash", "brief", "garbage"} {
			if _, err := l.Launch(t.Context(), slot, "cpu", ""); err == nil {
				t.Fatalf("%s started", slot)
			}
		}
		p := launch(t, l, "ok")
		p.Stop(within(t, 20*time.Second), 0)
		awaitDone(t, p)
	}
	round() // what the runtime opens once is open now
	before := open()
	for range 3 {
		round()
	}
	eventually(t, "all descriptors of ended workers are closed", func() bool { return open() <= before })
}

func TestAttachToSomebodyWhoDoesNotAnswer(t *testing.T) {
	s := startTestSupervisor(t)
	stopProcess(t, s.cmd.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, _, err := Attach(ctx, s.dir, nil)
		failed <- err
	}()
	select {
	case err := <-failed:
		if shared.KindOf(err) != shared.KindDeadline {
			t.Errorf("got %v of kind %v", err, shared.KindOf(err))
		}
	case <-within(t, 20*time.Second).Done():
		t.Error("it still waits")
	}
}

func TestStopOfAStoppedWorkerIsBounded(t *testing.T) {
	for _, drain := range []time.Duration{0, 100 * time.Millisecond, time.Hour} {
		t.Run(drain.String(), func(t *testing.T) {
			p := launch(t, newTestLauncher(t, impatient), "ok")
			stopProcess(t, p.PID())
			go p.Stop(context.WithoutCancel(t.Context()), drain)
			if exit := awaitDone(t, p); exit.Signal != "killed" {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

// A worker whose requests stand still is not given the time to drain, and neither
// is one that stops answering in the middle of it. One that gets on is.
func TestDrainEndsWhenNothingMoves(t *testing.T) {
	hasty := func(c *LauncherConfig) { c.StopGrace, c.StallPatience = 100*time.Millisecond, time.Millisecond }
	t.Run("stuck", func(t *testing.T) {
		p := launch(t, newTestLauncher(t, hasty), "stuck")
		go p.Stop(context.WithoutCancel(t.Context()), time.Hour)
		awaitDone(t, p)
	})
	t.Run("stopped while it drains", func(t *testing.T) {
		p := launch(t, newTestLauncher(t, hasty), "endless")
		go p.Stop(context.WithoutCancel(t.Context()), time.Hour)
		own := uint64(1) // the launch has asked once
		eventually(t, "a drain that goes on although it is longer than requests may stand still", func() bool {
			res, err := p.Worker().Heartbeat(t.Context())
			own++
			return err == nil && res.Progress > own+2
		})
		stopProcess(t, p.PID())
		if exit := awaitDone(t, p); exit.Signal != "killed" {
			t.Errorf("got %+v", exit)
		}
	})
}

func TestStopEndsWithItsContext(t *testing.T) {
	p := launch(t, newTestLauncher(t, func(c *LauncherConfig) { c.StopGrace = time.Hour }), "deaf")
	stopProcess(t, p.PID())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Stop(ctx, time.Hour)
	if exit := awaitDone(t, p); exit.Signal != "killed" {
		t.Errorf("got %+v, want it killed when nobody waits any more", exit)
	}
}
