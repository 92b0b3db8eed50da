package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKilledWorkerComesBack(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	before := s.slots()
	kill(t, before["f16"].PID, syscall.SIGKILL)
	s.served("q8")
	s.served("f16")
	after := s.until("f16 is resident again", func(slots map[string]slotDoc) bool { return slots["f16"].Status == "resident" })
	if f16 := after["f16"]; f16.Restarts != 1 || f16.PID == before["f16"].PID {
		t.Errorf("the killed slot is %+v", f16)
	}
	if q8 := after["q8"]; q8.Restarts != 0 || q8.PID != before["q8"].PID {
		t.Errorf("the other slot did not stay as it was: %+v", q8)
	}
}

func TestWorkersEndWithTheSupervisor(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	slots := s.slots()
	stop(t, slots["f16"].PID)
	ended := map[string]func(time.Duration) bool{}
	for id, slot := range slots {
		ended[id] = watchEnd(t, slot.PID)
	}
	kill(t, s.cmd.Process.Pid, syscall.SIGKILL)
	// Without the parent-death signal the stopped one would stay for ever, so that
	// a bound for busy machines will do.
	for id, gone := range ended {
		if !gone(*killsWithin) {
			t.Errorf("the worker of %s outlives its supervisor", id)
		}
	}
	s.waitEnd()

	again := serveIn(t, s.file, s.state)
	again.served("q8")
	again.served("f16")
	workers, err := filepath.Glob(filepath.Join(s.state, "w", "*", "proc.json"))
	if err != nil || len(workers) != 2 {
		t.Errorf("workers in the state directory: %v, %v", workers, err)
	}
}

func TestStoppedWorkersDoNotHoldUpAnything(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	slots := s.slots()
	gone := watchEnd(t, slots["f16"].PID)
	stop(t, slots["f16"].PID)
	s.served("q8")
	s.ok("restart", "f16")
	if !gone(patience) {
		t.Error("the stopped worker is still there after restart")
	}
	s.served("f16")

	stopped := s.until("f16 is resident", func(slots map[string]slotDoc) bool { return slots["f16"].Status == "resident" })["f16"].PID
	gone = watchEnd(t, stopped)
	stop(t, stopped)
	kill(t, s.cmd.Process.Pid, syscall.SIGINT)
	s.waitEnd()
	if !gone(patience) {
		t.Error("the stopped worker outlives serve")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 && code != 130 {
		t.Errorf("serve ended with code %d", code)
	}
	left, err := os.ReadDir(filepath.Join(s.state, "w"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Whoever does not want to wait for the orderly end says so again.
func TestInterruptedTwice(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	slots := s.slots()
	stop(t, slots["f16"].PID) // so that the orderly end takes its time
	ended := map[string]func(time.Duration) bool{}
	for id, slot := range slots {
		ended[id] = watchEnd(t, slot.PID)
	}
	kill(t, s.cmd.Process.Pid, syscall.SIGINT)
	s.printed("stopping")
	_ = s.cmd.Process.Signal(syscall.SIGINT) // on a busy machine it may have ended
	s.waitEnd()
	for id, gone := range ended {
		if !gone(*killsWithin) {
			t.Errorf("the worker of %s outlives serve", id)
		}
	}
}

func TestWrongDigestKeepsOneSlotEmpty(t *testing.T) {
	wrong := strings.Repeat("0123456789abcdef", 4)
	s := serve(t, twoSlots(t, wrong))
	s.served("f16")
	q8 := s.slots()["q8"]
	if q8.Status != "empty" || !strings.Contains(q8.LastError, wrong) || !strings.Contains(q8.LastError, sha256Q8) {
		t.Errorf("the slot with the wrong digest is %+v", q8)
	}
	if a := s.ask("q8"); a.Error == nil || a.Error.Field != "sha256" {
		t.Errorf("it answered %+v", a)
	}
}

func TestEvictAndPrepare(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	s.ok("evict", "q8")
	if q8 := s.slots()["q8"]; q8.Status != "empty" {
		t.Errorf("after evict: %+v", q8)
	}
	if out := s.run("generate", "--slot", "q8", "--on-miss", "fail", "x"); out.code != 4 {
		t.Errorf("on-miss fail: exit %d\n%s", out.code, out.stderr)
	}
	s.ok("prepare", "q8")
	s.served("q8")
	s.ok("evict", "f16", "--drop-host")
	s.served("f16")
}
