package e2e

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// unlockedWorker makes the test program take from itself the right to lock more
// than 64 KiB and become the worker that the variable names.
const unlockedWorker = "E2E_UNLOCKED_WORKER"

func startUnlocked(worker string) int {
	runtime.LockOSThread() // it is this thread that the new program takes after
	// Who may not drop a capability has none.
	err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0)
	if err == nil || errors.Is(err, unix.EPERM) {
		err = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10})
	}
	if err == nil {
		err = syscall.Exec(worker, append([]string{worker}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestMemoryThatMayNotBeLocked: where the model cannot be locked it is served all
// the same, and the slot says why.
func TestMemoryThatMayNotBeLocked(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := attachedBy(t, supervisor.Config{Slots: []shared.SlotSpec{spec(t, "story", "storyteller-q8_0.gguf", shared.TransferMmap)}},
		supervisor.LauncherConfig{Executable: own, Args: []string{"slotworker"}, Env: []string{unlockedWorker + "=" + program.path}})
	res, err := f.Generate(t.Context(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: "story"}, Prompt: "Tell me a story about a fox.", MaxTokens: 8,
	}, func(shared.Chunk) error { return nil })
	if err != nil || res.SlotID != "story" {
		t.Fatalf("%+v, %v", res, err)
	}
	list, err := f.ListSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := list.Slots[0]
	t.Logf("transfer %s, pinned %v, pin_note %q", s.Transfer, s.Pinned, s.PinNote)
	if s.Status != shared.SlotResident || s.Transfer != shared.TransferMmap || s.Pinned || !strings.Contains(s.PinNote, "memlock limit 65536 bytes, the model has ") {
		t.Errorf("the slot is %+v", s)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	if err != nil || !strings.Contains(string(text), "VmLck:\t       0 kB") {
		t.Errorf("a part of the model stayed locked: %v\n%s", err, text)
	}
}
