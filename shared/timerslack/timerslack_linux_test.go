package timerslack

import (
	"fmt"
	"os"
	"os/exec"
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
		fmt.Println(os.Getpid(), os.Args[1], ns, err)
		close(said)
	}()
	runtime.LockOSThread() // so that the goroutine needs another one
	<-said
	os.Exit(0)
}

func TestEveryThreadIsCoarse(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "an argument")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	// The process is the one that was started, with what it was started with.
	want := fmt.Sprintln(cmd.Process.Pid, "an argument", wanted, error(nil))
	if string(out) != want {
		t.Errorf("it says %q, want %q", out, want)
	}
}
