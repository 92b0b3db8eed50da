package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: the end that a person would sit at, and the
// other one.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// A closed terminal ends serve and its workers; it does not mean "reload".
func TestServeEndsWithItsTerminal(t *testing.T) {
	dir, err := os.MkdirTemp(program.short, "h")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "test.hcl")
	if err := os.WriteFile(file, []byte(twoSlots(t, sha256Q8)), 0o600); err != nil {
		t.Fatal(err)
	}
	person, other := terminal(t)
	s := &server{
		t: t, state: filepath.Join(dir, "state"), file: file, out: &lockedBuffer{new: make(chan struct{}, 1)}, ended: make(chan struct{}),
		cmd: exec.Command(program.path, "serve", "-c", file, "--state-dir", filepath.Join(dir, "state")),
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = other, s.out, s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	s.printed("ready;")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil { // with the terminal still there
		t.Error(err)
	}
	s.printed("cause=SIGHUP")
	gone := watchEnd(t, s.slots()["q8"].PID)
	if err := person.Close(); err != nil {
		t.Error(err)
	}
	s.waitEnd()
	if !gone(patience) {
		t.Error("a worker outlives the terminal")
	}
}
