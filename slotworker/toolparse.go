package slotworker

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"github.com/firstframe/firstframe/shared"
)

// toolParser takes calls of tools out of an answer's text as it comes. The
// grammar has seen to it that what follows where calls begin is right.
type toolParser struct {
	format *toolFormat
	head   *regexp.Regexp // of a call, up to its arguments
	held   string         // text that may become a call
	plain  bool           // no call can come any more
	calls  int            // begun so far; text is over once one has

	inCalls bool
	header  []byte // of the call that begins, up to its arguments
	depth   int    // of brackets in the arguments
	quoted  bool
	escaped bool
}

func newToolParser(f *toolFormat) *toolParser {
	return &toolParser{
		format: f,
		head:   regexp.MustCompile(`^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"` + f.arguments + `"\s*:\s*$`),
	}
}

// push turns text into text that is shown and pieces of calls.
func (p *toolParser) push(text string) (shown string, calls []shared.ToolCall) {
	if !p.inCalls {
		shown, text = p.content(text)
	}
	if p.inCalls {
		calls = p.pieces(text)
	}
	return shown, calls
}

// end gives what was held back.
func (p *toolParser) end() string {
	held := p.held
	p.held = ""
	return held
}

// content splits text into what is shown and what belongs to calls.
func (p *toolParser) content(text string) (shown, calls string) {
	if p.plain {
		return text, ""
	}
	text = p.held + text
	at, end, found := p.format.trigger(text)
	switch {
	case found:
		p.inCalls, p.held = true, ""
		if p.format.marker == "" {
			end = at // what it is recognized by is a part of the object
		}
		return text[:at], text[end:]
	case p.format.marker == "" && at == len(text) && text != "":
		p.plain = true
	}
	p.held = text[at:]
	return text[:at], ""
}

// pieces reads calls byte by byte.
func (p *toolParser) pieces(text string) []shared.ToolCall {
	var out []shared.ToolCall
	from := 0 // of the arguments in this text
	for i := range len(text) {
		b := text[i]
		if p.depth > 0 {
			if p.argument(b) {
				out = append(out, shared.ToolCall{Index: p.calls - 1, Arguments: text[from : i+1]})
			}
			continue
		}
		if b == '{' {
			if m := p.head.FindSubmatch(p.header); m != nil {
				var name string
				_ = json.Unmarshal(m[1], &name) // the grammar made it a text
				out = append(out, shared.ToolCall{Index: p.calls, ID: newCallID(), Name: name})
				p.calls++
				p.header, p.depth, from = nil, 1, i
				continue
			}
			p.header = nil // whatever came before the object
		}
		p.header = append(p.header, b)
	}
	if p.depth > 0 && from < len(text) {
		out = append(out, shared.ToolCall{Index: p.calls - 1, Arguments: text[from:]})
	}
	return out
}

// argument follows brackets and quotes; true at the end of the arguments.
func (p *toolParser) argument(b byte) bool {
	switch {
	case p.escaped:
		p.escaped = false
	case p.quoted && b == '\\':
		p.escaped = true
	case b == '"':
		p.quoted = !p.quoted
	case p.quoted:
	case b == '{' || b == '[':
		p.depth++
	case b == '}' || b == ']':
		p.depth--
	}
	return p.depth == 0
}

// newCallID is of nine letters and digits, which some templates insist on.
func newCallID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])[:9]
}
