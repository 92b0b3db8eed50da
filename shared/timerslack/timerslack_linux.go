package timerslack

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// wanted is how late a timer may be, in nanoseconds. Nothing here that waits for
// time waits for less than milliseconds. It is no more than a few of the monitor's
// own naps: Go's scheduler takes short ones as well before it moves a goroutine to
// an idle processor, and those are as late.
const wanted = 250_000

// Enter makes sure that the timers of all threads of this process, and of the
// processes that it starts, are coarse. A thread's slack is that of the thread
// that made it, and it stays across exec, so the program is started anew in the
// same process unless it already was. Enter is called before anything else is
// done, and returns also when the system does not allow it.
func Enter() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	has, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || has >= wanted {
		return
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, wanted, 0, 0, 0) != nil {
		return
	}
	// In case this returns the program goes on as it is.
	_ = unix.Exec(program(), os.Args, os.Environ())
}

// program is the path of the running program. The path it was started by keeps its
// name in the lists of processes; another file may have taken that one's place.
func program() string {
	const own = "/proc/self/exe"
	path, err := os.Readlink(own)
	if err != nil {
		return own
	}
	named, err := os.Stat(path)
	if err != nil {
		return own
	}
	running, err := os.Stat(own)
	if err != nil || !os.SameFile(named, running) {
		return own
	}
	return path
}
