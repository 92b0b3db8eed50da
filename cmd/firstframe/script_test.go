package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
)

// TestScripts runs the built program as people do: real supervisor, real
// workers, real engine. Each script has a state directory of its own.
func TestScripts(t *testing.T) {
	bin, engine := program(t), enginetest.Dir(t)
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			state, err := os.MkdirTemp("", "ff") // short, since paths of sockets are
			if err != nil {
				return err
			}
			env.Defer(func() {
				if err := os.RemoveAll(state); err != nil {
					t.Error(err)
				}
			})
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv(enginelib.EnvDir, engine)
			env.Setenv(envStateDir, filepath.Join(state, "s"))
			env.Setenv("HCL", filepath.Join(repository, "testdata", "hcl"))
			env.Setenv("MODELS", filepath.Join(repository, "testdata", "models"))
			env.Values[serving] = &server{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":     serveCommand,
			"stop":      stopCommand,
			"code":      codeCommand,
			"json":      jsonCommand,
			"until":     untilCommand,
			"additive":  additiveCommand,
			"interrupt": interruptCommand,
			"peer":      peerCommand,
		},
	})
}

const serving = "serving"

// server is `firstframe serve` in the background of a script.
type server struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	ended  chan struct{} // err is set by then
	err    error
}

// serveCommand starts `firstframe serve` and goes on when it says that it is
// ready: serve -c FILE.
func serveCommand(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serving).(*server)
	if neg || s.cmd != nil {
		ts.Fatalf("usage: serve ARGS, once")
	}
	cmd := scriptCommand(ts, append([]string{"serve"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	s.stderr, s.ended = &bytes.Buffer{}, make(chan struct{})
	cmd.Stderr = s.stderr
	ts.Check(cmd.Start())
	s.cmd = cmd
	ts.Defer(func() {
		if s.cmd != nil {
			_ = cmd.Process.Kill() // workers follow
			<-s.ended
		}
	})
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			s.err = cmd.Wait()
			close(s.ended)
			ts.Fatalf("serve ended before it was ready: %v\n%s", s.err, s.stderr)
		}
		ts.Logf("%s", line)
		if strings.HasPrefix(line, "ready") {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		s.err = cmd.Wait()
		close(s.ended)
	}()
}

// stopCommand ends the server by Ctrl-C and wants it to end well.
func stopCommand(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serving).(*server)
	if neg || len(args) > 0 || s.cmd == nil {
		ts.Fatalf("usage: stop, after serve")
	}
	ts.Check(s.cmd.Process.Signal(os.Interrupt))
	<-s.ended
	s.cmd = nil
	if s.err != nil {
		ts.Fatalf("serve did not end well: %v\n%s", s.err, s.stderr)
	}
}

// scriptCommand is a run of the program in a script's surroundings.
func scriptCommand(ts *testscript.TestScript, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(built.dir, "firstframe"), args...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", enginelib.EnvDir, envStateDir, "MODELS", "OLLAMA_MODELS", "HF_HUB_CACHE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

// codeCommand runs the program and wants an exit code: code N ARGS.
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: code N ARGS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("firstframe", args[1:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("cannot run it: %v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d instead of %d", got, want)
	}
}

// jsonCommand looks into the one document that the last command printed: json
// PATH VALUE, or json PATH for any value that is not empty. A number in a path
// counts the entries of a list.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json PATH [VALUE]")
	}
	value := printedValue(ts, args[0])
	text := fmt.Sprint(value)
	matches := value != nil && text != ""
	if len(args) == 2 {
		matches = text == args[1]
	}
	if matches == neg {
		ts.Fatalf("%s is %q", args[0], text)
	}
}

// printedValue looks up a path in the document that the last command printed.
func printedValue(ts *testscript.TestScript, path string) (value any) {
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &value))
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			ts.Check(err)
			if i >= len(v) {
				ts.Fatalf("%s: there are only %d", path, len(v))
			}
			value = v[i]
		default:
			value = nil
		}
	}
	return value
}

// untilCommand runs the program again and again until a value in what it prints is
// the wanted one, which is about to come: until PATH VALUE ARGS.
func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: until PATH VALUE ARGS")
	}
	for end := time.Now().Add(time.Minute); ; {
		ts.Check(ts.Exec("firstframe", args[2:]...))
		value := fmt.Sprint(printedValue(ts, args[0]))
		switch {
		case value == args[1]:
			return
		case time.Now().After(end):
			ts.Fatalf("%s stays %q", args[0], value)
		}
	}
}

// additiveCommand checks that phases add up in every run of a bench document.
func additiveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: additive")
	}
	var doc bench.Document
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.DisallowUnknownFields()
	ts.Check(dec.Decode(&doc))
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("something follows the document: %v", err)
	}
	if len(doc.Runs) == 0 {
		ts.Fatalf("there are no runs")
	}
	for _, r := range doc.Runs {
		var sum float64
		for _, phase := range []string{"route", "queue", "slot_activation", "context_lookup", "prefill", "decode_first_token", "first_chunk_flush", "other"} {
			ms, ok := r.PhaseMS[phase]
			if !ok || ms < 0 {
				ts.Fatalf("%s: phase %s is %v", r.Case, phase, ms)
			}
			sum += ms
		}
		if len(r.PhaseMS) != 8 || r.FirstChunkMS <= 0 || math.Abs(sum-r.FirstChunkMS) > 0.01*r.FirstChunkMS || r.FullResponseMS < r.FirstChunkMS {
			ts.Fatalf("%s: phases add up to %v, first chunk %v, full response %v", r.Case, sum, r.FirstChunkMS, r.FullResponseMS)
		}
		// All others were prepared before they were asked.
		if resident := !strings.HasPrefix(r.Case, "cold") && !strings.HasPrefix(r.Case, "evicted") && !strings.HasPrefix(r.Case, "switch_under_budget"); resident != r.SlotHit || resident == (r.ActivationMS != nil) {
			ts.Fatalf("%s: slot hit %v with activation %+v", r.Case, r.SlotHit, r.ActivationMS)
		}
	}
}

// interruptCommand runs the program, presses Ctrl-C after its first line of
// output, and leaves what it printed in the file stdout.txt. The pipe is not
// read in between, so that a long answer cannot be over before.
func interruptCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: interrupt ARGS")
	}
	cmd := scriptCommand(ts, args...)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewReaderSize(stdout, 16)
	first, err := lines.ReadString('\n')
	ts.Check(err)
	ts.Check(cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(lines)
	ts.Check(err)
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		ts.Fatalf("ended with %v instead of code %d", err, exitInterrupted)
	}
	ts.Check(os.WriteFile(ts.MkAbs("stdout.txt"), append([]byte(first), rest...), 0o600))
}

// peerCommand starts another OpenAI-compatible server, which is made up, and
// puts its address into $PEER. With "fail" it answers no chat.
func peerCommand(ts *testscript.TestScript, neg bool, args []string) {
	fail := slices.Equal(args, []string{"fail"})
	if neg || (len(args) > 0 && !fail) {
		ts.Fatalf("usage: peer [fail]")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"made-up"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		if fail {
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Once\"}}]}\n\ndata: [DONE]\n\n")
	})
	server := httptest.NewServer(mux)
	ts.Defer(server.Close)
	ts.Setenv("PEER", server.URL)
}
