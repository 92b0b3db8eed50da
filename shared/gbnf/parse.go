package gbnf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a grammar.
const (
	MaxBytes     = 256 << 10
	maxNested    = 64
	maxRules     = 1 << 12
	maxProgram   = 1 << 17 // instructions
	maxRepeat    = 1 << 16
	rootRule     = "root"
	unboundedMax = -1
)

// Grammar is a grammar that was checked. It never changes.
type Grammar struct {
	program []instruction
	start   []int32 // of each rule
	root    int32
}

// Parse reads and checks a grammar whose first rule to be matched is root.
func Parse(text string) (*Grammar, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("the grammar has %d bytes, more than %d", len(text), MaxBytes)
	case !utf8.ValidString(text):
		return nil, errors.New("the grammar is not UTF-8")
	}
	p := &parser{text: text, ids: map[string]int{}}
	if err := p.rules(); err != nil {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(text[:min(p.at, len(text))], "\n"), err)
	}
	root, ok := p.ids[rootRule]
	if !ok {
		return nil, errors.New("there is no rule root")
	}
	for id, body := range p.bodies {
		if body == nil {
			return nil, fmt.Errorf("rule %s is not defined", p.names[id])
		}
	}
	if id := leftRecursion(p.bodies); id >= 0 {
		return nil, fmt.Errorf("rule %s is left-recursive: it can begin with itself", p.names[id])
	}
	return compile(p.bodies, root)
}

type kind uint8

const (
	kindClass  kind = iota // one character of spans
	kindRef                // another rule
	kindSeq                // list, one after the other
	kindAlt                // one of list
	kindRepeat             // list[0], min to max times
)

// expr is a node of a rule's body.
type expr struct {
	kind     kind
	spans    []span
	ref      int
	list     []*expr
	min, max int
}

// span is an inclusive range of characters.
type span struct{ lo, hi rune }

// parser reads rules. Its position is where an error is reported.
type parser struct {
	text   string
	at     int
	depth  int
	ids    map[string]int
	names  []string
	bodies []*expr
}

func (p *parser) rules() error {
	p.space(true)
	for p.at < len(p.text) {
		if err := p.rule(); err != nil {
			return err
		}
		if len(p.names) > maxRules {
			return fmt.Errorf("there are more than %d rules", maxRules)
		}
		p.space(true)
	}
	return nil
}

func (p *parser) rule() error {
	name := p.name()
	if name == "" {
		return errors.New("the name of a rule is expected")
	}
	id := p.id(name)
	if p.bodies[id] != nil {
		return fmt.Errorf("rule %s is defined twice", name)
	}
	p.space(false)
	if !p.take("::=") {
		return fmt.Errorf("::= is expected after the name %s", name)
	}
	p.space(true)
	body, err := p.alternatives(false)
	if err != nil {
		return err
	}
	p.bodies[id] = body
	if p.at < len(p.text) && p.text[p.at] != '\n' && p.text[p.at] != '\r' {
		return fmt.Errorf("the end of the rule is expected before %q", p.next())
	}
	return nil
}

func (p *parser) id(name string) int {
	id, ok := p.ids[name]
	if !ok {
		id = len(p.names)
		p.ids[name] = id
		p.names, p.bodies = append(p.names, name), append(p.bodies, nil)
	}
	return id
}

// space skips blanks and comments, and, between rules and in brackets, line ends.
func (p *parser) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' && p.text[p.at] != '\r' {
				p.at++
			}
		default:
			return
		}
	}
}

func (p *parser) take(s string) bool {
	if !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// next is the character at the position, for messages and switches; 0 at the end.
func (p *parser) next() rune {
	if p.at >= len(p.text) {
		return 0
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return c
}

func (p *parser) name() string {
	from := p.at
	for p.at < len(p.text) && isWord(p.text[p.at]) {
		p.at++
	}
	return p.text[from:p.at]
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

func (p *parser) alternatives(nested bool) (*expr, error) {
	alt := &expr{kind: kindAlt}
	for {
		seq, err := p.sequence(nested)
		if err != nil {
			return nil, err
		}
		alt.list = append(alt.list, seq)
		if !p.take("|") {
			return alt, nil
		}
		p.space(true)
	}
}

func (p *parser) sequence(nested bool) (*expr, error) {
	seq := &expr{kind: kindSeq}
	for p.at < len(p.text) {
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if item == nil {
			again, err := p.repeat(seq)
			if err != nil {
				return nil, err
			}
			if !again {
				return seq, nil
			}
		} else {
			seq.list = append(seq.list, item)
		}
		p.space(nested)
	}
	return seq, nil
}

// item reads what can stand alone; nil when something else comes.
func (p *parser) item() (*expr, error) {
	switch c := p.next(); {
	case c == '"':
		return p.literal()
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return &expr{kind: kindClass, spans: []span{{0, utf8.MaxRune}}}, nil
	case c == '(':
		return p.group()
	case c == '<' || c == '!':
		return nil, errors.New("tokens in a grammar are not supported")
	case c < utf8.RuneSelf && isWord(byte(c)):
		return &expr{kind: kindRef, ref: p.id(p.name())}, nil
	default:
		return nil, nil
	}
}

func (p *parser) group() (*expr, error) {
	if p.depth++; p.depth > maxNested {
		return nil, fmt.Errorf("brackets are nested deeper than %d", maxNested)
	}
	p.at++
	p.space(true)
	body, err := p.alternatives(true)
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, errors.New("a closing ) is missing")
	}
	p.depth--
	return body, nil
}

// repeat applies a count to the last item of a sequence, when one comes.
func (p *parser) repeat(seq *expr) (bool, error) {
	low, high := 0, unboundedMax
	switch p.next() {
	case '*':
	case '+':
		low = 1
	case '?':
		high = 1
	case '{':
		var err error
		if low, high, err = p.count(); err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	p.at++
	if len(seq.list) == 0 {
		return false, errors.New("there is nothing before the count to repeat")
	}
	last := len(seq.list) - 1
	if seq.list[last].kind == kindRepeat {
		return false, errors.New("a count follows another count: put brackets around what is repeated")
	}
	seq.list[last] = &expr{kind: kindRepeat, list: []*expr{seq.list[last]}, min: low, max: high}
	return true, nil
}

// count reads {m}, {m,} or {m,n} up to the closing bracket.
func (p *parser) count() (low, high int, err error) {
	p.at++
	p.space(false)
	if low, err = p.number(); err != nil {
		return 0, 0, err
	}
	high = low
	if p.take(",") {
		high = unboundedMax
		p.space(false)
		if c := p.next(); c >= '0' && c <= '9' {
			if high, err = p.number(); err != nil {
				return 0, 0, err
			}
			if high < low {
				return 0, 0, fmt.Errorf("the count {%d,%d} ends before it begins", low, high)
			}
		}
	}
	if p.next() != '}' {
		return 0, 0, errors.New("a closing } is missing")
	}
	return low, high, nil
}

func (p *parser) number() (int, error) {
	from := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	digits := p.text[from:p.at]
	if digits == "" {
		return 0, errors.New("a number is expected in a count")
	}
	p.space(false)
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxRepeat {
		return 0, fmt.Errorf("the count %s is more than %d", shorten(digits), maxRepeat)
	}
	return n, nil
}

func shorten(s string) string {
	if len(s) > 20 {
		return s[:20] + "…"
	}
	return s
}
