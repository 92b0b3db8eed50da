package timerslack

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// child makes the test's program, started with it, enter and say what became of it.
const child = "TIMERSLACK_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	Enter()
	said := make(chan struct{})
	go func() { // on another thread than the one that has entered
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		name, _ := os.ReadFile("/proc/self/comm")
		fmt.Println(os.Getpid(), os.Args[1], ns, err, string(bytes.TrimSpace(name)))
		close(said)
	}()
	runtime.LockOSThread() // so that the goroutine needs another one
	<-said
	os.Exit(0)
}

func TestEveryThreadIsCoarse(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "an argument")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	// The process is the one that was started, with what it was started with and
	// under its name, of which the system keeps 15 bytes.
	name := filepath.Base(path)
	want := fmt.Sprintln(cmd.Process.Pid, "an argument", wanted, error(nil), name[:min(len(name), 15)])
	if string(out) != want {
		t.Errorf("it says %q, want %q", out, want)
	}
}
