package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// measured is a cold request with every phase in it.
func measured(scale time.Duration) shared.Measured {
	return shared.Measured{
		Result: shared.Result{
			SlotID: demoQ8, Identity: shared.Identity{Precision: "Q8_0"}, Usage: shared.Usage{CompletionTokens: 5},
			Activation: shared.ActivationDetail{Spawn: 3 * scale, Prefetch: 5 * scale, Transfer: 2 * scale, Warmup: scale, Canary: scale},
		},
		Phases: shared.Phases{
			Route: scale / 100, Queue: scale, SlotActivation: 13 * scale, ContextLookup: scale / 10, Prefill: 4 * scale,
			DecodeFirstToken: scale, FirstChunkFlush: scale / 2, Other: scale,
		},
		FirstChunk:   scale/100 + scale + 13*scale + scale/10 + 4*scale + scale + scale/2 + scale,
		FullResponse: 30 * scale,
	}
}

func TestBars(t *testing.T) {
	var page bytes.Buffer
	for _, b := range []*bars{
		{out: &page, color: true, unicode: true},
		{out: &page, unicode: true},
		{out: &page},
	} {
		page.WriteString(b.legend())
		b.request(measured(time.Millisecond))
		b.compare([]compared{{"one", measured(time.Millisecond)}, {"another", measured(10 * time.Microsecond)}})
		page.WriteString("\n")
	}
	golden(t, "bars.txt", strings.ReplaceAll(page.String(), "\x1b", "ESC"))
}

// TestBarsStayInside draws lengths of all kinds: no line is wider than a
// terminal, and no phase that took time is invisible.
func TestBarsStayInside(t *testing.T) {
	for _, unicode := range []bool{true, false} {
		for _, scale := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, time.Second, time.Minute} {
			var page bytes.Buffer
			b := &bars{out: &page, unicode: unicode}
			b.request(measured(scale))
			for line := range strings.Lines(page.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := len([]rune(line)); n > 80 {
					t.Errorf("%d columns: %q", n, line)
				}
			}
			if scale < 1000 {
				continue // some phases are 0 then
			}
			for _, p := range measured(scale).Phases.List() {
				if !strings.ContainsAny(lineOf(page.String(), string(p.Phase)), "#|▏▎▍▌▋▊▉█") {
					t.Errorf("phase %s of %v shows nothing:\n%s", p.Phase, p.Duration, page.String())
				}
			}
		}
	}
}

func lineOf(page, name string) string {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), name+" ") {
			return line
		}
	}
	return ""
}

func TestNoText(t *testing.T) {
	var page bytes.Buffer
	(&bars{out: &page}).request(shared.Measured{})
	if !strings.Contains(page.String(), "no first chunk") {
		t.Error(page.String())
	}
}

func TestSpeaksUnicode(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, true},
		{map[string]string{"LANG": "de_DE.UTF-8"}, true},
		{map[string]string{"LC_CTYPE": "C.utf8", "LANG": "C"}, true},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, false},
	} {
		if got := speaksUnicode(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%v: %v", tt.env, got)
		}
	}
}

// TestWrapper checks that text is broken at spaces and that nothing of it is lost.
func TestWrapper(t *testing.T) {
	var page bytes.Buffer
	w := &wrapper{out: &page, indent: "  ", width: 30}
	text := strings.Repeat("many small words and then averyveryverylongone ", 8)
	for _, piece := range strings.SplitAfter(text, "e") {
		if err := w.write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Fields(page.String()); strings.Join(got, " ") != strings.TrimSpace(text) {
		t.Errorf("the text has changed: %q", page.String())
	}
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "  ") || len(line) > 30+len("averyveryverylongone") {
			t.Errorf("line %q", line)
		}
	}
}
