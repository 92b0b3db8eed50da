package slotworker

import (
	"strings"
	"unicode/utf8"
)

// textStream turns token pieces into text that may be shown at once: whole
// UTF-8 only, and nothing that could still become a stop string.
type textStream struct {
	stops   []string
	partial []byte // the start of a character whose rest has not come yet
	held    string // text that could be the start of a stop string
	stopped bool

	stoppedBy string // the stop string that ended the text
}

func newTextStream(stops []string) *textStream {
	return &textStream{stops: stops}
}

// push adds a piece and gives the text that became certain. Once a stop string
// is complete, stopped is set and the text ends before it.
func (t *textStream) push(piece []byte) string {
	if t.stopped {
		return ""
	}
	t.partial = append(t.partial, piece...)
	whole := completePrefix(t.partial)
	text := t.held + validText(t.partial[:whole])
	t.partial = append(t.partial[:0], t.partial[whole:]...)
	if at, stop := t.firstStop(text); at >= 0 {
		t.stopped, t.stoppedBy, t.held, t.partial = true, stop, "", nil
		return text[:at]
	}
	keep := t.possibleStop(text)
	t.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// finish gives what was held back. A character that never became whole shows as U+FFFD.
func (t *textStream) finish() string {
	if t.stopped {
		return ""
	}
	text := t.held + validText(t.partial)
	t.held, t.partial = "", nil
	return text
}

// firstStop is where the stop string starts that is complete first, or -1, and
// which it is. Of two that end together the longer one counts. So the text does
// not depend on how it was cut into tokens.
func (t *textStream) firstStop(text string) (start int, first string) {
	start, end := -1, 0
	for _, stop := range t.stops {
		at := strings.Index(text, stop)
		if at < 0 {
			continue
		}
		if e := at + len(stop); start < 0 || e < end || e == end && at < start {
			start, end, first = at, e, stop
		}
	}
	return start, first
}

// possibleStop is the length of the longest end of text that starts a stop string.
func (t *textStream) possibleStop(text string) int {
	longest := 0
	for _, stop := range t.stops {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// completePrefix is how many bytes of b do not end in a character cut short.
func completePrefix(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		start := len(b) - back
		if !utf8.RuneStart(b[start]) {
			continue
		}
		if !utf8.FullRune(b[start:]) {
			return start
		}
		break
	}
	return len(b)
}

// validText replaces each byte that is no UTF-8 by U+FFFD.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
