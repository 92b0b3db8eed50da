package slotworker

import (
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// thinkOpened reports whether a prompt ends where the model is to think.
func thinkOpened(m *shared.ThinkMarks, prompt string) bool {
	return strings.HasSuffix(strings.TrimRight(prompt, blanks), m.Open)
}

// blanks around the marks belong neither to what is thought nor to what is said.
const blanks = " \t\r\n"

type thinkState int

const (
	thinkOver   thinkState = iota // the rest of the answer is said
	thinkBefore                   // an answer that begins with the mark would be thought
	thinkInside
	thinkBehind // blanks may follow the closing mark
)

// thinkSplitter tells what a model thinks from what it says, as the answer comes.
// Only its beginning is thought. The zero value takes everything as said; a copy
// goes on from where the original was.
type thinkSplitter struct {
	marks *shared.ThinkMarks
	state thinkState
	begun bool   // blanks behind the opening mark are over
	held  string // text of which it is not certain yet what it is
}

// newThinkSplitter splits an answer; opened says that its prompt had the mark.
func newThinkSplitter(m *shared.ThinkMarks, opened bool) *thinkSplitter {
	s := &thinkSplitter{marks: m, state: thinkBefore}
	if opened {
		s.state = thinkInside
	}
	return s
}

// push takes in text and gives what has become certain.
func (s *thinkSplitter) push(text string) (thought, said string) {
	if s.held != "" {
		text, s.held = s.held+text, ""
	}
	if s.state == thinkBefore {
		rest := strings.TrimLeft(text, blanks)
		behind, open := strings.CutPrefix(rest, s.marks.Open)
		switch {
		case open:
			s.state, text = thinkInside, behind
		case strings.HasPrefix(s.marks.Open, rest):
			s.held = text
			return "", ""
		default:
			s.state = thinkOver
		}
	}
	if s.state == thinkInside {
		var closed bool
		if thought, text, closed = s.inside(text); !closed {
			return thought, ""
		}
	}
	if s.state == thinkBehind {
		if text = strings.TrimLeft(text, blanks); text != "" {
			s.state = thinkOver
		}
	}
	return thought, text
}

// inside looks for the end of what is thought. Blanks are held until it is known
// that they are not the last ones.
func (s *thinkSplitter) inside(text string) (thought, rest string, closed bool) {
	if !s.begun {
		text = strings.TrimLeft(text, blanks)
		s.begun = text != ""
	}
	if thought, rest, closed = strings.Cut(text, s.marks.Close); closed {
		s.state = thinkBehind
		return strings.TrimRight(thought, blanks), rest, true
	}
	certain := len(text)
	for n := min(len(s.marks.Close)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, s.marks.Close[:n]) {
			certain -= n
			break
		}
	}
	certain = len(strings.TrimRight(text[:certain], blanks))
	s.held = text[certain:]
	return text[:certain], "", false
}

// end gives what was held back.
func (s *thinkSplitter) end() (thought, said string) {
	held := s.held
	s.held = ""
	if s.state == thinkInside {
		return strings.TrimRight(held, blanks), ""
	}
	return "", held
}

// counts takes in a token's text and reports whether the token is thought, with
// the marks.
func (s *thinkSplitter) counts(piece []byte) bool {
	before := s.state == thinkInside
	s.push(string(piece))
	return before || s.state == thinkInside
}
