package slotworker

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// streamed pushes the pieces and gives all text that came out.
func streamed(t *testing.T, stops []string, pieces ...string) (string, bool) {
	t.Helper()
	ts := newTextStream(stops)
	var out strings.Builder
	for _, p := range pieces {
		text := ts.push([]byte(p))
		if !utf8.ValidString(text) {
			t.Errorf("%q is no UTF-8", text)
		}
		out.WriteString(text)
	}
	out.WriteString(ts.finish())
	return out.String(), ts.stopped
}

func TestTextStream(t *testing.T) {
	tests := []struct {
		name    string
		stops   []string
		pieces  []string
		want    string
		stopped bool
	}{
		{"plain", nil, []string{"one ", "two"}, "one two", false},
		{"character over three tokens", nil, []string{"\xf0", "\x9f\xa6", "\x8a!"}, "🦊!", false},
		{"character never whole", nil, []string{"a\xf0\x9f"}, "a\uFFFD\uFFFD", false},
		{"no UTF-8 in the middle", nil, []string{"a\xff", "b"}, "a\uFFFDb", false},
		{"stop inside a token", []string{"STOP"}, []string{"abSTOPcd"}, "ab", true},
		{"stop over tokens", []string{"STOP"}, []string{"abS", "T", "OP", "cd"}, "ab", true},
		{"stop begun and left", []string{"STOP"}, []string{"abST", "x"}, "abSTx", false},
		{"stop begun at the end", []string{"STOP"}, []string{"abSTO"}, "abSTO", false},
		{"stop after its own start", []string{"aab"}, []string{"a", "a", "a", "b"}, "a", true},
		{"first complete wins", []string{"abcd", "bc"}, []string{"abcd"}, "a", true},
		{"longer of two that end together", []string{"bc", "abc"}, []string{"xabc"}, "x", true},
		{"stop with a character cut in two", []string{"é"}, []string{"a\xc3", "\xa9b"}, "a", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, stopped := streamed(t, tt.stops, tt.pieces...)
			if got != tt.want || stopped != tt.stopped {
				t.Errorf("got %q, stopped %v; want %q, %v", got, stopped, tt.want, tt.stopped)
			}
		})
	}
}

func TestTextIsShownAsSoonAsItIsCertain(t *testing.T) {
	ts := newTextStream([]string{"END"})
	for _, step := range []struct{ piece, want string }{
		{"a", "a"}, {"E", ""}, {"N", ""}, {"x", "ENx"}, {"\xc3", ""}, {"\xa9", "é"},
	} {
		if got := ts.push([]byte(step.piece)); got != step.want {
			t.Errorf("after %q: got %q, want %q", step.piece, got, step.want)
		}
	}
}

// FuzzTextStream: how text is cut into tokens must not change what is shown.
func FuzzTextStream(f *testing.F) {
	f.Add([]byte("one STOP two"), "STOP", uint8(3))
	f.Add([]byte("\xf0\x9f\xa6\x8a"), "🦊", uint8(1))
	f.Add([]byte("aaab"), "aab", uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, stop string, size uint8) {
		var stops []string
		if stop != "" && utf8.ValidString(stop) {
			stops = []string{stop, stop + "x"}
		}
		whole, stoppedWhole := streamed(t, stops, string(data))
		var pieces []string
		for n := int(size)%7 + 1; len(data) > 0; {
			cut := min(n, len(data))
			pieces = append(pieces, string(data[:cut]))
			data = data[cut:]
		}
		cut, stoppedCut := streamed(t, stops, pieces...)
		if whole != cut || stoppedWhole != stoppedCut {
			t.Errorf("whole: %q %v; cut: %q %v", whole, stoppedWhole, cut, stoppedCut)
		}
	})
}
