package supervisor

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestParseProcStat(t *testing.T) {
	tail := " S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 50"
	for name, text := range map[string]string{
		"plain":                   "42 (firstframe)" + tail,
		"a name with parentheses": "42 (a) S 1 (b c)" + tail,
	} {
		state, ticks, err := parseProcStat(text)
		if err != nil || state != "S" || ticks != "987654" {
			t.Errorf("%s: got %q, %q, %v", name, state, ticks, err)
		}
	}
	for _, text := range []string{"", "42 (x", "42 (x) S 1", "42 (x) " + strings.Repeat("x ", 30)} {
		if _, _, err := parseProcStat(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func FuzzParseProcStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Add("1 ())) ) R")
	f.Fuzz(func(t *testing.T, text string) {
		state, ticks, err := parseProcStat(text)
		if err == nil && (state == "" || ticks == "") {
			t.Errorf("%q gave %q and %q", text, state, ticks)
		}
	})
}

func TestProcessIDIsOneLife(t *testing.T) {
	id, err := identify(os.Getpid())
	if err != nil || !id.alive() || !id.proven() {
		t.Fatalf("got %+v, %v", id, err)
	}
	other := id
	other.Start += "1"
	if other.alive() {
		t.Error("another life of the pid counts as alive")
	}
	if (processID{PID: 1, Start: id.Start}).proven() {
		t.Error("pid 1 may be killed")
	}

	child := exec.Command(os.Args[0], "-test.run=^$")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	childID, err := identify(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is a zombie", func() bool { return !childID.alive() })
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
