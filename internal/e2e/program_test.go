package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that is sure to come; it is no
// measure of speed.
const patience = 3 * time.Minute

var program struct {
	path  string // of the built binary
	short string // base of short state directories
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if worker := os.Getenv(unlockedWorker); worker != "" {
		return startUnlocked(worker)
	}
	dir, err := os.MkdirTemp("", "ff-e2e-")
	if err == nil {
		err = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" "+raceDetector))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program.path, program.short = filepath.Join(dir, "firstframe"), dir
	build := exec.Command("go", append(append([]string{"build"}, raceFlag...), "-o", program.path, "../../cmd/firstframe")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// model is the absolute path of a model in testdata.
func model(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "models", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// server is `firstframe serve` in a process of its own.
type server struct {
	t     testing.TB
	cmd   *exec.Cmd
	state string
	file  string
	out   *lockedBuffer
	ended chan struct{}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
	new chan struct{} // has room for one: something was written
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.new <- struct{}{}:
	default:
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// serve starts the program with a configuration and waits until it says ready.
func serve(t testing.TB, config string) *server {
	t.Helper()
	dir, err := os.MkdirTemp(program.short, "s")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "test.hcl")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return serveIn(t, file, filepath.Join(dir, "state"))
}

func serveIn(t testing.TB, file, state string) *server {
	t.Helper()
	s := &server{
		t: t, state: state, file: file, out: &lockedBuffer{new: make(chan struct{}, 1)}, ended: make(chan struct{}),
		cmd: exec.Command(program.path, "serve", "-c", file, "--state-dir", state),
	}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Signal(os.Interrupt)
		s.waitEnd()
		if t.Failed() {
			t.Logf("serve printed:\n%s", s.out)
		}
	})
	s.printed("ready;")
	return s
}

// printed waits until the program has written a text.
func (s *server) printed(text string) {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !strings.Contains(s.out.String(), text) {
		select {
		case <-s.out.new:
		case <-s.ended:
			s.t.Fatalf("serve ended: %v\n%s", s.cmd.ProcessState, s.out)
		case <-timeout.C:
			s.t.Fatalf("serve did not write %q\n%s", text, s.out)
		}
	}
}

func (s *server) waitEnd() {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-s.ended:
	case <-timeout.C:
		_ = s.cmd.Process.Kill()
		s.t.Fatal("serve does not end")
	}
}

// output is what a run of the program gave.
type output struct {
	stdout, stderr string
	code           int
}

// run runs the program once, on the state directory of this server.
func (s *server) run(args ...string) output {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.path, append(args, "--state-dir", s.state)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok runs the program and wants it to succeed.
func (s *server) ok(args ...string) string {
	s.t.Helper()
	out := s.run(args...)
	if out.code != 0 {
		s.t.Fatalf("%v: exit %d\n%s%s", args, out.code, out.stdout, out.stderr)
	}
	return out.stdout
}

type slotDoc struct {
	SlotID    string `json:"slot_id"`
	Status    string `json:"status"`
	Process   string `json:"process"`
	PID       int    `json:"pid"`
	Restarts  int    `json:"restarts"`
	LastError string `json:"last_error"`
	InFlight  int    `json:"in_flight"`
	Exit      string
	LogTail   []string `json:"log_tail"`

	RetryAfterMS int64 `json:"retry_after_ms"`
}

func (s *server) slots() map[string]slotDoc {
	s.t.Helper()
	var doc struct{ Slots []slotDoc }
	out := s.run("slots", "--json") // exit 1 when a slot is in error
	if err := json.Unmarshal([]byte(out.stdout), &doc); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.stdout, out.stderr)
	}
	slots := map[string]slotDoc{}
	for _, slot := range doc.Slots {
		slots[slot.SlotID] = slot
	}
	return slots
}

// until watches the slots until the condition holds.
func (s *server) until(what string, holds func(map[string]slotDoc) bool) map[string]slotDoc {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.path, "slots", "--watch", "--json", "--state-dir", s.state)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	dec := json.NewDecoder(stdout)
	for {
		var doc struct{ Slots []slotDoc }
		if err := dec.Decode(&doc); err != nil {
			s.t.Fatalf("waiting until %s: %v", what, err)
		}
		slots := map[string]slotDoc{}
		for _, slot := range doc.Slots {
			slots[slot.SlotID] = slot
		}
		if holds(slots) {
			return slots
		}
	}
}

// answer is what a request gave.
type answer struct {
	Text     string
	SlotID   string `json:"slot_id"`
	Identity struct{ Precision string }
	Error    *struct {
		Kind, Message, Field string

		RetryAfterMS int64    `json:"retry_after_ms"`
		LogTail      []string `json:"log_tail"`
	}
}

func (s *server) ask(slot string) answer {
	s.t.Helper()
	out := s.run("generate", "--json", "--slot", slot, "--max-tokens", "24", "Tell me a story about a fox.")
	var a answer
	if err := json.Unmarshal([]byte(out.stdout), &a); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.stdout, out.stderr)
	}
	return a
}

// served wants a readable answer.
func (s *server) served(slot string) {
	s.t.Helper()
	if a := s.ask(slot); a.Error != nil || a.SlotID != slot || !strings.Contains(a.Text, "fox") {
		s.t.Errorf("slot %s answered %+v", slot, a)
	}
}

// watchEnd opens a process so that its end can be waited for.
func watchEnd(t testing.TB, pid int) (wait func(time.Duration) bool) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func(limit time.Duration) bool {
		deadline := time.Now().Add(limit)
		for {
			left := max(time.Until(deadline), 0)
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil:
				t.Fatal(err)
			case n > 0:
				return true
			case left == 0:
				return false
			}
		}
	}
}

func kill(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("cannot signal process %d: %v", pid, err)
	}
}

// twoSlots is a configuration of both precisions with what tests add to it. One
// thread each: more would wait for each other on a busy machine.
func twoSlots(t testing.TB, shaQ8 string) string {
	return fmt.Sprintf(`
model "q8" {
  name   = "storyteller"
  path   = %q
  sha256 = %q
}
model "f16" {
  name = "storyteller"
  path = %q
}
slot "q8" {
  model   = model.q8
  threads = 1
  context { tokens = 512 }
}
slot "f16" {
  model    = model.f16
  threads  = 1
  transfer = "pageable"
  context { tokens = 512 }
}
`, model(t, "storyteller-q8_0.gguf"), shaQ8, model(t, "storyteller-f16.gguf"))
}

const sha256Q8 = "89b019474aa81e5c299e0ed32d19d49460c3bf19d8aca446fadf19b8f4c730c8"
