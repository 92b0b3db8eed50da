package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLogTail(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("line ", i))
	}
	dump := []string{"PC=0x1 m=0 sigcode=0", "goroutine 1 [running]:", "main.main()", "\t/src/main.go:12 +0x1d error"}
	for name, test := range map[string]struct {
		log  []string
		want []string
	}{
		"nothing":            {nil, nil},
		"one line":           {[]string{"bye"}, []string{"bye"}},
		"the last ten":       {many, append([]string{"line 99"}, many[90:99]...)},
		"an error before":    {[]string{"a", "error: b", "c"}, []string{"error: b", "a", "c"}},
		"an old error":       {append([]string{"error: old"}, many...), append([]string{"line 99"}, many[90:99]...)},
		"an assertion":       {append([]string{"a", "/x/ggml.c:7: GGML_ASSERT(b) failed", "SIGABRT: abort"}, dump...), []string{"/x/ggml.c:7: GGML_ASSERT(b) failed", "a"}},
		"an abort":           {append([]string{"a", "/x/ggml-cpu.cpp:7: not here", "SIGABRT: abort"}, dump...), []string{"/x/ggml-cpu.cpp:7: not here", "a"}},
		"a late assertion":   {append(append([]string{"a", "SIGABRT: abort"}, dump...), "GGML_ASSERT(b) failed"), []string{"GGML_ASSERT(b) failed", "a"}},
		"a panic":            {append([]string{"error: a", "panic: b"}, dump...), []string{"panic: b", "error: a"}},
		"a signal, an error": {append([]string{"load failed: a", "b", "SIGSEGV: segmentation violation"}, dump...), []string{"load failed: a", "b"}},
		"only a signal":      {append([]string{"fatal error: unexpected signal during runtime execution"}, dump...), []string{"fatal error: unexpected signal during runtime execution"}},
		"only a dump":        {dump[1:], []string{"goroutine 1 [running]:"}},
		"empty lines":        {[]string{"a", "", "  ", "b", ""}, []string{"b", "a"}},
	} {
		got, signal := logTail(strings.NewReader(strings.Join(test.log, "\n")))
		if wantSignal := crashSignal(test.log); signal != wantSignal {
			t.Errorf("%s: got signal %q, want %q", name, signal, wantSignal)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// crashSignal is the signal that a log of the table names.
func crashSignal(log []string) string {
	for _, line := range log {
		if name, _, _ := strings.Cut(line, ":"); name == "SIGABRT" || name == "SIGSEGV" {
			return name
		}
	}
	return ""
}

func TestCrashSignalInsideTheDump(t *testing.T) {
	log := "fatal error: unexpected signal during runtime execution\n[signal SIGSEGV: segmentation violation code=0x1]\n"
	if _, signal := logTail(strings.NewReader(log)); signal != "SIGSEGV" {
		t.Errorf("got %q", signal)
	}
	if _, signal := logTail(strings.NewReader("SIGN: x\nbye\n")); signal == "SIGABRT" {
		t.Errorf("got %q", signal)
	}
}

func FuzzLogTail(f *testing.F) {
	f.Add("a\nGGML_ASSERT(x)\nSIGABRT: abort\ngoroutine 1 [running]:\n")
	f.Add(strings.Repeat("\xff", 5000) + "\n\x00: \n.c:1: x")
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := logTail(strings.NewReader(text))
		if len(got) > tailLines+1 {
			t.Errorf("%d lines", len(got))
		}
		for _, line := range got {
			if line == "" || len(line) > tailLineMax || !utf8.ValidString(line) || strings.ContainsAny(line, "\r\n") && strings.HasSuffix(line, "\n") {
				t.Errorf("the line %q", line)
			}
		}
		if strings.TrimSpace(text) != "" && utf8.ValidString(text) && len(got) == 0 && strings.ContainsFunc(text, func(r rune) bool { return r > ' ' && r < 0x7f }) && len(text) < tailLineMax {
			t.Error("nothing was found")
		}
	})
}
