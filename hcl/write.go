package hcl

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

// sourceText travels with a diagnostic, which is then shown with the line as it
// was read, whatever has become of the file since.
type sourceText []byte

// maxSnippet bounds how much of a line is shown on each side, and marked.
const maxSnippet = 60

// WriteDiagnostics prints diagnostics with the lines of source they point at.
// Values of variables are never printed: they may come from the environment.
func WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, color bool) error {
	var b bytes.Buffer
	for _, d := range diags {
		red, reset := "", ""
		if color {
			red, reset = "\x1b[31m", "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s%s%s: %s\n\n", red, severity(d), reset, shared.Visible(d.Summary))
		if d.Subject != nil {
			start := d.Subject.Start
			fmt.Fprintf(&b, "  on %s:%d:%d:\n", shown(d.Subject.Filename), start.Line, start.Column)
			if text, ok := d.Extra.(sourceText); ok && len(text) > 0 {
				line, mark := snippet(text, *d.Subject)
				fmt.Fprintf(&b, "%4d: %s\n      %s%s%s\n", start.Line, line, red, mark, reset)
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n\n", shared.Visible(d.Detail))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// snippet is the line that a range starts in, and a line of marks to stand below
// it. What is too long is cut.
func snippet(text []byte, rng hcl.Range) (line, mark string) {
	start := min(max(rng.Start.Byte, 0), len(text))
	from := bytes.LastIndexByte(text[:start], '\n') + 1
	to := len(text)
	if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
		to = start + i
	}
	end := min(max(rng.End.Byte, start), to)
	before, marked := []rune(string(text[from:start])), []rune(string(text[start:end]))
	after := []rune(strings.TrimRight(string(text[end:to]), "\r"))
	if len(before) > maxSnippet {
		before = append([]rune("…"), before[len(before)-maxSnippet:]...)
	}
	if len(marked) > maxSnippet {
		marked, after = marked[:maxSnippet], []rune("…")
	} else if len(after) > maxSnippet {
		after = append(after[:maxSnippet:maxSnippet], '…')
	}
	blank := func(r rune) rune {
		switch {
		case r == '\t':
			return r // as wide above as below
		case unicode.Is(unicode.Mn, r):
			return -1
		default:
			return ' '
		}
	}
	mark = strings.Map(blank, string(before)) + strings.Repeat("^", max(1, len(marked)))
	return string(before) + string(marked) + string(after), mark
}

// shown is a file name that is safe for a terminal.
func shown(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

func severity(d *hcl.Diagnostic) string {
	if d.Severity == hcl.DiagWarning {
		return "Warning"
	}
	return "Error"
}
