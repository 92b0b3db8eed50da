package gbnf

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// literal reads a text in quotes.
func (p *parser) literal() (*expr, error) {
	p.at++
	seq := &expr{kind: kindSeq}
	for !p.take(`"`) {
		c, err := p.char()
		if err != nil {
			return nil, err
		}
		seq.list = append(seq.list, &expr{kind: kindClass, spans: []span{{c, c}}})
	}
	return seq, nil
}

// class reads a set of characters.
func (p *parser) class() (*expr, error) {
	p.at++
	not := p.take("^")
	var spans []span
	for !p.take("]") {
		lo, err := p.char()
		if err != nil {
			return nil, err
		}
		hi := lo
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			if hi, err = p.char(); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, fmt.Errorf("the range %q-%q ends before it begins", lo, hi)
			}
		}
		spans = append(spans, span{lo, hi})
	}
	if not {
		spans = complement(spans)
	}
	return &expr{kind: kindClass, spans: normalize(spans)}, nil
}

// char reads one character of a literal or a set.
func (p *parser) char() (rune, error) {
	if p.at >= len(p.text) {
		return 0, errors.New("the grammar ends inside quotes or brackets")
	}
	c, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	if c != '\\' {
		return c, nil
	}
	e := p.next()
	p.at++
	switch e {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^':
		return e, nil
	default:
		return 0, fmt.Errorf("unknown escape \\%c", max(e, ' '))
	}
}

func (p *parser) hex(digits int) (rune, error) {
	if len(p.text)-p.at < digits {
		return 0, fmt.Errorf("%d hexadecimal digits are expected", digits)
	}
	v, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
	if err != nil || v > math.MaxInt32 {
		return 0, fmt.Errorf("%d hexadecimal digits are expected", digits)
	}
	p.at += digits
	// A class may reach beyond the last character; nothing can match there.
	return rune(v), nil
}
