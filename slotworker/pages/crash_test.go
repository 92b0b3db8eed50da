package pages

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// crashDirEnv makes the test binary a store that writes to a directory for ever.
const crashDirEnv = "FIRSTFRAME_TEST_CRASH_DIR"

// crashTokens is the prompt number n of the process that is killed.
func crashTokens(n int) []int32 { return seq(n, 50) }

// storeUntilKilled stores one prompt after another and says so when it is on disk.
func storeUntilKilled(dir string) {
	cfg := testConfig(dir)
	cfg.DiskBytes = 64 << 20
	s, err := Open(cfg)
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		tokens := crashTokens(n)
		e := newFakeEngine()
		e.decode(0, tokens...)
		st, err := ParseState(e.state(0))
		if err != nil {
			panic(err)
		}
		if _, err := s.Save(Save{Prompt: s.NewPrompt(tokens), State: st, Tail: true}); err != nil {
			panic(err)
		}
		if n%10 == 9 {
			if err := s.Flush(context.Background()); err != nil {
				panic(err)
			}
			fmt.Println(n)
		}
	}
}

// A process is killed while it writes. What it said to be on disk is there, whole,
// and nothing else of it is left.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDirEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		last := -1
		for range round + 1 {
			if !lines.Scan() {
				t.Fatal("the process ended by itself")
			}
			if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed

		cfg := testConfig(dir)
		cfg.DiskBytes = 64 << 20
		r := open(t, cfg)
		for n := 0; n <= last; n++ {
			r.want(r.use(crashTokens(n), ""), 49, "", -1)
		}
		if q := quarantined(t, dir); len(q) != 0 {
			t.Fatalf("in quarantine: %v", q)
		}
		r.flush()
		checkDirectory(t, r)
		r.close()
	}
}
