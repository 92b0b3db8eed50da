package slotworker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/sandbox"
)

// intruderVariable makes the test program a worker whose engine tries to get at
// what a worker has no business with; its value is the plan.
const intruderVariable = "SLOTWORKER_TEST_INTRUDER"

// intrusion is what an engine tries, and what came of it.
type intrusion struct {
	Free     bool  // not confined at all
	Lacks    []int // capabilities that the process is started without
	Model    string
	Outside  string // a folder that is not the worker's, with the file secret
	Own      []string
	Program  string
	Victim   int
	TCP, UDP string
	Abstract string
	Socket   string

	Report sandbox.Report
	Tries  []try
}

// try is one attempt; Err is empty when it went well. Of is what the sandbox
// calls it, and empty for what a worker needs.
type try struct{ Of, What, Err string }

func intruder(text string) int {
	var plan intrusion
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		panic(err)
	}
	if len(plan.Lacks) > 0 {
		plan.startWithout()
	}
	cfg := MainConfig{Args: os.Args[1:], Version: "test", OpenEngine: func(string) (Engine, error) {
		plan.tryAll()
		found, err := json.Marshal(plan)
		if err != nil {
			return nil, err
		}
		return nil, shared.Errorf(shared.KindEngineMissing, "%s", found)
	}}
	if !plan.Free {
		cfg.Confine = func(p sandbox.Policy) sandbox.Report {
			plan.Report = sandbox.Enter(p)
			return plan.Report
		}
	}
	return Main(context.Background(), cfg)
}

// startWithout starts the program again without some capabilities. Who has none
// cannot drop any, which comes to the same.
func (in intrusion) startWithout() {
	runtime.LockOSThread() // it is this thread that the new program takes after
	for _, c := range in.Lacks {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EPERM) {
			panic(err)
		}
	}
	in.Lacks = nil
	text, err := json.Marshal(in)
	if err == nil {
		err = os.Setenv(intruderVariable, string(text))
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	panic(err)
}

func (in *intrusion) try(of, what string, f func() error) {
	t := try{Of: of, What: what}
	if err := f(); err != nil {
		t.Err = err.Error()
	}
	in.Tries = append(in.Tries, t)
}

func (in *intrusion) tryAll() {
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, []byte("x"), 0o700) }
	}
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	run := func(path string) func() error { return func() error { return exec.Command(path).Run() } }
	connect := func(network, address string) func() error {
		return func() error {
			conn, err := net.DialTimeout(network, address, 10*time.Second)
			if err != nil {
				return err
			}
			_, err = conn.Write([]byte("x"))
			return errors.Join(err, conn.Close())
		}
	}
	in.try("", "read the model", read(in.Model))
	for _, dir := range in.Own {
		in.try("", "make a folder in "+dir, func() error { return os.MkdirAll(filepath.Join(dir, "tried"), 0o700) })
		in.try("", "write in "+dir, write(filepath.Join(dir, "tried", "a")))
		in.try("", "rename in "+dir, func() error {
			return os.Rename(filepath.Join(dir, "tried", "a"), filepath.Join(dir, "tried", "b"))
		})
		in.try("", "remove in "+dir, func() error { return os.RemoveAll(filepath.Join(dir, "tried")) })
	}
	in.try(sandbox.OpenFiles, "read a file", read(filepath.Join(in.Outside, "secret")))
	in.try(sandbox.OpenFiles, "list a folder", func() error { _, err := os.ReadDir(in.Outside); return err })
	in.try(sandbox.OpenFiles, "read another process's environment", read(filepath.Join("/proc", strconv.Itoa(in.Victim), "environ")))
	in.try(sandbox.OpenFiles, "read the users", read("/etc/passwd"))
	in.try(sandbox.OpenFiles, "make a file", write(filepath.Join(in.Outside, "new")))
	in.try(sandbox.OpenFiles, "make a folder", func() error { return os.Mkdir(filepath.Join(in.Outside, "newer"), 0o700) })
	in.try(sandbox.OpenFiles, "change the model", func() error {
		f, err := os.OpenFile(in.Model, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
	in.try(sandbox.OpenFiles, "remove a file", func() error { return os.Remove(filepath.Join(in.Outside, "secret")) })
	in.try(sandbox.OpenPrograms, "start a program", run(in.Program))
	in.try(sandbox.OpenPrograms, "start a program of its own", func() error {
		text, err := os.ReadFile(in.Program)
		if err != nil {
			return err
		}
		own := filepath.Join(in.Own[0], "program")
		if err := os.WriteFile(own, text, 0o700); err != nil {
			return err
		}
		return run(own)()
	})
	in.try(sandbox.OpenSignals, "signal a process", func() error { return unix.Kill(in.Victim, unix.SIGURG) })
	in.try(sandbox.OpenTracing, "trace a process", func() error { return traceBriefly(in.Victim) })
	in.try(sandbox.OpenTCP, "connect by TCP", connect("tcp", in.TCP))
	in.try(sandbox.OpenUDP, "send by UDP", connect("udp", in.UDP))
	in.try(sandbox.OpenAbstract, "connect to an abstract socket", connect("unix", in.Abstract))
	in.try(sandbox.OpenPathSockets, "connect to a socket", connect("unix", in.Socket))
}

// traceBriefly stops a process as a debugger does, and lets it go on.
func traceBriefly(pid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// accepting takes whatever connects, until the test ends.
func accepting(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

// intrude starts a worker with such an engine and gives what it found out.
func intrude(t *testing.T, free bool, lacks ...int) (intrusion, *workerProcess) {
	t.Helper()
	dir := t.TempDir()
	victim := exec.Command("cat")
	if _, err := victim.StdinPipe(); err != nil { // closed by Wait
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	model := filepath.Join(dir, "model.gguf")
	text, err := os.ReadFile(testModel)
	if err == nil {
		err = os.WriteFile(model, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	plan := intrusion{
		Free: free, Lacks: lacks, Model: model, Outside: dir, Own: []string{tmp}, Program: program, Victim: victim.Process.Pid,
		TCP: accepting(t, "tcp", "127.0.0.1:0"), UDP: packets.LocalAddr().String(),
		Abstract: accepting(t, "unix", "@slotworker-test-"+strconv.Itoa(victim.Process.Pid)),
		Socket:   accepting(t, "unix", filepath.Join(tmp, "s")),
	}
	found, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	p := startWorkerAs(t, intruderVariable+"="+string(found), "--read="+model)
	spec := shared.SlotSpec{SlotID: "story", ModelPath: model, Transfer: shared.TransferMmap}
	_, id := identityOf(t, spec)
	_, err = p.worker.Prefetch(t.Context(), shared.PrefetchRequest{Spec: spec, Plan: shared.PrefetchPlan{SlotID: "story"}, Expected: id}, nil)
	if shared.KindOf(err) != shared.KindEngineMissing { // anything else says that the model was not read
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(shared.AsError(err, "", "").Text()), &plan); err != nil {
		t.Fatalf("%v: %v", err, p.logText(t))
	}
	return plan, p
}

// TestEngineThatTries has an engine in a real worker process try what no engine
// has to do. What the sandbox reports as held is denied, and what is not denied is
// in the report.
func TestEngineThatTries(t *testing.T) {
	for name, lacks := range map[string][]int{"all rights": nil, "no right to namespaces": {unix.CAP_SYS_ADMIN}} {
		t.Run(name, func(t *testing.T) {
			got, p := intrude(t, false, lacks...)
			t.Log(got.Report)
			if log := p.logText(t); !strings.Contains(log, got.Report.String()) {
				t.Errorf("the log does not say what holds:\n%s", log)
			}
			for _, try := range got.Tries {
				switch {
				case try.Of == "" && try.Err != "":
					t.Errorf("could not %s: %s", try.What, try.Err)
				case try.Of != "" && try.Err == "" && got.Report.Denies(try.Of):
					t.Errorf("could %s, and the report says that it cannot", try.What)
				case try.Of != "":
					t.Logf("%s: %s (%s)", try.What, try.Err, try.Of)
				}
			}
			if abi, err := sandbox.Landlock(); err == nil && abi >= 1 {
				for _, what := range []string{sandbox.OpenFiles, sandbox.OpenPrograms, sandbox.OpenTracing} {
					if !got.Report.Denies(what) {
						t.Errorf("Landlock denies %s, and the report does not: %v", what, got.Report)
					}
				}
			}
			if len(lacks) > 0 && got.Report.Denies(sandbox.OpenUDP) {
				t.Errorf("nothing denies UDP, and the report says so: %v", got.Report)
			}
		})
	}
}

// TestEngineThatIsFree shows that what the other test tries would go well.
func TestEngineThatIsFree(t *testing.T) {
	got, _ := intrude(t, true)
	for _, try := range got.Tries {
		// Some systems let only parents trace.
		if try.Err != "" && try.Of != sandbox.OpenTracing {
			t.Errorf("could not %s: %s", try.What, try.Err)
		}
	}
}
