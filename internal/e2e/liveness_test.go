package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// stop stops a process and returns when each of its threads has stopped.
func stop(t testing.TB, pid int) {
	t.Helper()
	kill(t, pid, syscall.SIGSTOP)
	deadline := time.Now().Add(patience)
	for !stopped(t, pid) {
		if time.Now().After(deadline) {
			t.Fatal("the process does not stop")
		}
	}
}

func stopped(t testing.TB, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", pid, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has just ended
		}
		if _, rest, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

// slotOf is one slot as it is now.
func slotOf(t testing.TB, f shared.Frontend, id string) shared.SlotInfo {
	t.Helper()
	l, err := f.ListSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Slots {
		if s.SlotID == id {
			return s
		}
	}
	t.Fatalf("no slot %s", id)
	return shared.SlotInfo{}
}

// awaitSlot watches until a slot is as it should be.
func awaitSlot(t testing.TB, f shared.Frontend, id, what string, holds func(shared.SlotInfo) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last shared.SlotInfo
	err := f.WatchSlots(ctx, func(l shared.SlotList) error {
		for _, s := range l.Slots {
			if last = s; s.SlotID == id && holds(s) {
				return errFound
			}
		}
		return nil
	})
	if !strings.Contains(err.Error(), errFound.Error()) {
		t.Fatalf("waiting until %s: %v, last %+v", what, err, last)
	}
}

var errFound = shared.Errorf(shared.KindOther, "found")

// generate runs a request of many tokens, and calls first at its first chunk.
func generate(ctx context.Context, f shared.Frontend, slot string, tokens int, first func()) (string, error) {
	text := ""
	_, err := f.Generate(ctx, shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: slot}, Prompt: "Tell me a story about a fox.",
		MaxTokens: tokens, IgnoreEOS: true,
	}, func(c shared.Chunk) error {
		if text == "" && c.Text != "" && first != nil {
			first()
		}
		text += c.Text
		return nil
	})
	return text, err
}

func TestStoppedMidGeneration(t *testing.T) {
	const wedgeAfter = 5 * time.Second // on a busy machine a good worker may be silent for a while
	f := attachedTo(t, supervisor.Config{
		Slots:      []shared.SlotSpec{spec(t, "a", "storyteller-q8_0.gguf", shared.TransferMmap)},
		WedgeAfter: wedgeAfter, Heartbeat: 200 * time.Millisecond,
	})
	if _, err := generate(t.Context(), f, "a", 8, nil); err != nil {
		t.Fatal(err)
	}
	before := slotOf(t, f, "a")
	gone := watchEnd(t, before.PID)
	var at time.Time
	// A worker that had computed everything before it was stopped has lost nothing;
	// the next request meets a stopped one.
	for range 2 {
		_, err := generate(t.Context(), f, "a", 400, func() {
			if at.IsZero() {
				at = time.Now()
				stop(t, before.PID)
			}
		})
		if err == nil {
			continue
		}
		if shared.KindOf(err) != shared.KindWorkerLost {
			t.Errorf("the caller was told %v", err)
		}
		break
	}
	if !gone(patience) {
		t.Fatal("the stopped worker is still there")
	}
	t.Logf("killed and told %v after it was stopped, with wedge_after %v", time.Since(at), wedgeAfter)
	if _, err := generate(t.Context(), f, "a", 8, nil); err != nil {
		t.Errorf("the slot does not come back: %v", err)
	}
	if after := slotOf(t, f, "a"); after.PID == before.PID || after.Restarts != 1 || after.Exit != "signal killed" {
		t.Errorf("the slot is %+v", after)
	}
}

func TestDeletedSocketIsNoticed(t *testing.T) {
	f := attachedTo(t, supervisor.Config{
		Slots:     []shared.SlotSpec{spec(t, "a", "storyteller-q8_0.gguf", shared.TransferMmap)},
		Heartbeat: 50 * time.Millisecond,
	})
	if _, err := generate(t.Context(), f, "a", 8, nil); err != nil {
		t.Fatal(err)
	}
	before := slotOf(t, f, "a")
	var sockets []string // of this worker, and not of other tests
	records, err := filepath.Glob(filepath.Join(program.short, "a*", "s", "w", "*", "proc.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if text, _ := os.ReadFile(r); strings.Contains(string(text), `"pid":`+strconv.Itoa(before.PID)) {
			sockets, err = filepath.Glob(filepath.Join(filepath.Dir(r), "plugin[0-9]*"))
		}
	}
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %v, %v", sockets, err)
	}
	if err := os.Remove(sockets[0]); err != nil {
		t.Fatal(err)
	}
	awaitSlot(t, f, "a", "the worker is replaced", func(s shared.SlotInfo) bool {
		return s.PID != 0 && s.PID != before.PID && s.Status == shared.SlotResident
	})
	if _, err := generate(t.Context(), f, "a", 8, nil); err != nil {
		t.Error(err)
	}
	if after := slotOf(t, f, "a"); after.Restarts != 1 {
		t.Errorf("the slot is %+v", after)
	}
}

func TestKilledBeforeTheFirstChunk(t *testing.T) {
	f := attached(t, spec(t, "a", "storyteller-f16.gguf", shared.TransferPageable))
	want, err := generate(t.Context(), f, "a", 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	pid := slotOf(t, f, "a").PID
	// A stopped worker takes the request and gives nothing; then it is killed.
	stop(t, pid)
	ended := make(chan error, 1)
	var text string
	go func() {
		var err error
		text, err = generate(t.Context(), f, "a", 8, nil)
		ended <- err
	}()
	awaitSlot(t, f, "a", "the request runs", func(s shared.SlotInfo) bool { return s.InFlight == 1 })
	kill(t, pid, syscall.SIGKILL)
	if err := <-ended; err != nil || text != want {
		t.Errorf("the caller saw %q, %v; want %q", text, err, want)
	}
	if after := slotOf(t, f, "a"); after.Restarts != 1 {
		t.Errorf("the slot is %+v", after)
	}
}
