package slotworker

import (
	"errors"
	"fmt"
	"strings"
)

// Names under which the counters of a rendering are reached. A template that
// spells their prefix is refused, so that none can replace them.
const (
	countPrefix = "firstframe_count_"
	countText   = countPrefix + "text"
	countValue  = countPrefix + "value"
	countStep   = countPrefix + "step"
	countEnter  = countPrefix + "enter"
	countLeave  = countPrefix + "leave"
)

// boundTemplate rewrites a template so that the library computes the same text
// under bounds: every text between tags, every value written or set, every loop
// iteration and every macro call passes a counter. It also settles the
// whitespace, by the rules of Jinja with trim_blocks and lstrip_blocks, which is
// how chat templates are meant to be read: afterwards no text is left that a
// tag could trim.
func boundTemplate(source string) (bounded string, texts []string, err error) {
	if strings.Contains(source, countPrefix) {
		return "", nil, errors.New("it uses names that begin with " + countPrefix)
	}
	parts, err := cutTemplate(source)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.kind {
		case partText:
			fmt.Fprintf(&b, "{{ %s(%d) }}", countText, len(texts))
			texts = append(texts, p.body)
		case partOutput:
			fmt.Fprintf(&b, "{{ %s(%s) }}", countValue, p.body)
		case partTag:
			b.WriteString(boundTag(p.body))
		}
	}
	return b.String(), texts, nil
}

// boundTag adds the counters to one statement.
func boundTag(body string) string {
	word, rest, _ := strings.Cut(strings.TrimSpace(body), " ")
	tag := "{% " + body + " %}"
	switch word {
	case "for":
		return tag + "{% set " + countPrefix + "last = " + countStep + "() %}"
	case "macro":
		return tag + "{% set " + countPrefix + "last = " + countEnter + "() %}"
	case "endmacro":
		return "{% set " + countPrefix + "last = " + countLeave + "() %}" + tag
	case "set":
		// Without an equals sign it is the kind whose body follows.
		if target, value, ok := strings.Cut(rest, "="); ok {
			return "{% set " + target + "= " + countValue + "(" + value + ") %}"
		}
	}
	return tag
}

type partKind int

const (
	partText partKind = iota
	partOutput
	partTag
	partComment
)

// part is a text or a tag of a template. The body of a tag comes without its marks.
type part struct {
	kind partKind
	body string
}

// mark is how a kind of tag begins and ends.
type mark struct {
	kind        partKind
	open, close string
}

func markAt(s string) (mark, bool) {
	for _, m := range []mark{{partOutput, "{{", "}}"}, {partTag, "{%", "%}"}, {partComment, "{#", "#}"}} {
		if strings.HasPrefix(s, m.open) {
			return m, true
		}
	}
	return mark{}, false
}

// cutter goes through a template from front to back.
type cutter struct {
	parts     []part
	lineStart bool // the rest begins a line: at the start, and after a newline that a tag took
}

// cutTemplate splits a template into texts and tags. Comments are left out.
func cutTemplate(source string) ([]part, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.TrimSuffix(source, "\n")
	c := cutter{lineStart: true}
	for rest := source; rest != ""; {
		at := strings.IndexByte(rest, '{')
		for at >= 0 {
			if _, ok := markAt(rest[at:]); ok {
				break
			}
			next := strings.IndexByte(rest[at+1:], '{')
			if next < 0 {
				at = -1
			} else {
				at += 1 + next
			}
		}
		if at < 0 {
			c.text(rest)
			break
		}
		m, _ := markAt(rest[at:])
		body, after, err := tagBody(rest[at+len(m.open):], m)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", 1+strings.Count(source[:len(source)-len(rest)+at], "\n"), err)
		}
		before := rest[:at]
		body = c.open(before, body, m)
		rest = c.close(body, after, m)
		if m.kind == partTag && strings.TrimSpace(c.last()) == "raw" {
			if rest, err = c.raw(rest); err != nil {
				return nil, err
			}
		}
	}
	return c.parts, nil
}

// tagBody finds the end of a tag. Ends inside quotes do not count, except in comments.
func tagBody(s string, m mark) (body, after string, err error) {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch {
		case quote != 0:
			switch s[i] {
			case '\\':
				i++
			case quote:
				quote = 0
			}
		case strings.HasPrefix(s[i:], m.close):
			return s[:i], s[i+len(m.close):], nil
		case m.kind != partComment && (s[i] == '\'' || s[i] == '"'):
			quote = s[i]
		}
	}
	return "", "", fmt.Errorf("%s is never closed", m.open)
}

// open trims the text before a tag as the tag's beginning says, adds it, and
// gives the tag's body without that sign.
func (c *cutter) open(before, body string, m mark) string {
	switch {
	case strings.HasPrefix(body, "-"):
		body = body[1:]
		before = strings.TrimRight(before, whitespace)
	case strings.HasPrefix(body, "+") && m.kind != partOutput:
		body = body[1:]
	case m.kind != partOutput:
		line := strings.LastIndexByte(before, '\n') + 1
		if (line > 0 || c.lineStart) && strings.Trim(before[line:], " \t") == "" {
			before = before[:line]
		}
	}
	c.text(before)
	return body
}

// close adds a tag and trims what follows as the tag's end says.
func (c *cutter) close(body, after string, m mark) string {
	c.lineStart = false
	switch {
	case strings.HasSuffix(body, "-"):
		body = body[:len(body)-1]
		trimmed := strings.TrimLeft(after, whitespace)
		c.lineStart = strings.HasSuffix(after[:len(after)-len(trimmed)], "\n")
		after = trimmed
	case strings.HasSuffix(body, "+") && m.kind != partOutput:
		body = body[:len(body)-1]
	case m.kind != partOutput && strings.TrimSpace(body) != "raw":
		if rest, ok := strings.CutPrefix(after, "\n"); ok {
			c.lineStart = true
			after = rest
		}
	}
	if m.kind != partComment {
		c.parts = append(c.parts, part{m.kind, body})
	}
	return after
}

// whitespace is what the minus signs of tags take.
const whitespace = " \t\n\r\v\f"

func (c *cutter) text(s string) {
	if s != "" {
		c.parts = append(c.parts, part{partText, s})
	}
}

// last is the body of the tag that was just added.
func (c *cutter) last() string { return c.parts[len(c.parts)-1].body }

// raw takes everything up to endraw as text, in place of the tag raw.
func (c *cutter) raw(rest string) (string, error) {
	c.parts = c.parts[:len(c.parts)-1]
	for from := 0; ; {
		at := strings.Index(rest[from:], "{%")
		if at < 0 {
			return "", errors.New("raw is never ended")
		}
		at += from
		body, after, err := tagBody(rest[at+2:], mark{partTag, "{%", "%}"})
		if err == nil && strings.Trim(body, whitespace+"-+") == "endraw" {
			m := mark{partTag, "{%", "%}"}
			body = c.open(rest[:at], body, m)
			after = c.close(body, after, m)
			c.parts = c.parts[:len(c.parts)-1]
			return after, nil
		}
		from = at + 2
	}
}
