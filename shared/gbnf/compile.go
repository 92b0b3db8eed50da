package gbnf

import (
	"fmt"
	"unicode/utf8"
)

type opcode uint8

const (
	opByte   opcode = iota // one byte from lo to hi, then the next instruction
	opSplit                // the next instruction, and x
	opJump                 // x
	opCall                 // rule x, then the next instruction
	opReturn               // the end of a rule
	opFail                 // nothing
)

type instruction struct {
	op     opcode
	lo, hi byte
	x      int32
}

// compiler writes the program. Bodies that are wanted more than once, such as
// what is repeated, become rules of their own.
type compiler struct {
	program []instruction
	start   []int32
	pending []func() error // writes the body of one rule each
	classes map[string]int32
	failed  error
}

func compile(bodies []*expr, root int) (*Grammar, error) {
	c := &compiler{classes: map[string]int32{}}
	for _, body := range bodies {
		c.rule(body)
	}
	for i := 0; i < len(c.pending); i++ { // it grows meanwhile
		c.start[i] = int32(len(c.program))
		if err := c.pending[i](); err != nil {
			return nil, err
		}
		c.emit(instruction{op: opReturn})
		if c.failed != nil {
			return nil, c.failed
		}
	}
	return &Grammar{program: c.program, start: c.start, root: int32(root)}, nil
}

// rule reserves a rule and gives its number.
func (c *compiler) rule(body *expr) int32 {
	id := int32(len(c.start))
	c.start = append(c.start, 0)
	c.pending = append(c.pending, func() error { return c.expr(body) })
	return id
}

func (c *compiler) emit(i instruction) int {
	if len(c.program) >= maxProgram {
		c.failed = fmt.Errorf("the grammar is too large: its counts and rules make more than %d steps", maxProgram)
		return 0
	}
	c.program = append(c.program, i)
	return len(c.program) - 1
}

// here lets an instruction go on at the end of what is written so far.
func (c *compiler) here(at int) { c.program[at].x = int32(len(c.program)) }

func (c *compiler) expr(e *expr) error {
	if c.failed != nil {
		return c.failed
	}
	switch e.kind {
	case kindClass:
		c.class(e.spans)
	case kindRef:
		c.emit(instruction{op: opCall, x: int32(e.ref)})
	case kindSeq:
		for _, x := range e.list {
			if err := c.expr(x); err != nil {
				return err
			}
		}
	case kindAlt:
		return c.alternatives(len(e.list), func(i int) error { return c.expr(e.list[i]) })
	case kindRepeat:
		return c.repeat(e)
	}
	return c.failed
}

func (c *compiler) alternatives(n int, body func(int) error) error {
	var ends []int
	for i := range n {
		split := -1
		if i < n-1 {
			split = c.emit(instruction{op: opSplit})
		}
		if err := body(i); err != nil {
			return err
		}
		if c.failed != nil {
			return c.failed
		}
		if split >= 0 {
			ends = append(ends, c.emit(instruction{op: opJump}))
			if c.failed != nil {
				return c.failed
			}
			c.here(split)
		}
	}
	for _, end := range ends {
		c.here(end)
	}
	return nil
}

func (c *compiler) repeat(e *expr) error {
	copies := max(e.max, e.min)
	if e.max == unboundedMax {
		copies = e.min + 1
	}
	body := func() error { return c.expr(e.list[0]) }
	if copies > 1 && e.list[0].kind != kindClass {
		id := c.rule(e.list[0])
		body = func() error {
			c.emit(instruction{op: opCall, x: id})
			return c.failed
		}
	}
	for range e.min {
		if err := body(); err != nil {
			return err
		}
	}
	if e.max == unboundedMax {
		loop := c.emit(instruction{op: opSplit})
		if err := body(); err != nil {
			return err
		}
		c.emit(instruction{op: opJump, x: int32(loop)})
		if c.failed != nil {
			return c.failed
		}
		c.here(loop)
		return nil
	}
	var ends []int
	for range e.max - e.min {
		ends = append(ends, c.emit(instruction{op: opSplit}))
		if err := body(); err != nil {
			return err
		}
	}
	for _, end := range ends {
		c.here(end)
	}
	return nil
}

// class matches one character, as the bytes it is encoded in. A set of several
// byte sequences becomes a rule that all its uses share.
func (c *compiler) class(spans []span) {
	var sequences [][]byteRange
	for _, s := range spans {
		encode(s.lo, s.hi, func(seq []byteRange) { sequences = append(sequences, seq) })
	}
	switch len(sequences) {
	case 0:
		c.emit(instruction{op: opFail})
	case 1:
		c.bytes(sequences[0])
	default:
		key := fmt.Sprint(spans)
		id, known := c.classes[key]
		if !known {
			id = int32(len(c.start))
			c.classes[key] = id
			c.start = append(c.start, 0)
			c.pending = append(c.pending, func() error {
				return c.alternatives(len(sequences), func(i int) error { c.bytes(sequences[i]); return nil })
			})
		}
		c.emit(instruction{op: opCall, x: id})
	}
}

func (c *compiler) bytes(seq []byteRange) {
	for _, r := range seq {
		c.emit(instruction{op: opByte, lo: r.lo, hi: r.hi})
	}
}

type byteRange struct{ lo, hi byte }

// encode cuts a range of characters into ranges whose encodings differ byte by
// byte only. Surrogates are no characters.
func encode(lo, hi rune, emit func([]byteRange)) {
	const surrogates, afterSurrogates = 0xD800, 0xE000
	if lo < surrogates && hi >= surrogates {
		encode(lo, surrogates-1, emit)
	}
	if lo < afterSurrogates && hi >= surrogates {
		lo = afterSurrogates
	}
	for _, last := range []rune{0x7F, 0x7FF, 0xFFFF} { // of each length
		if lo <= last && hi > last {
			encode(lo, last, emit)
			lo = last + 1
		}
	}
	if lo > hi {
		return
	}
	for i := 1; i < utf8.RuneLen(lo); i++ {
		tail := rune(1)<<(6*i) - 1 // what the last i bytes hold
		if lo&^tail == hi&^tail {
			break
		}
		if lo&tail != 0 {
			encode(lo, lo|tail, emit)
			encode(lo|tail+1, hi, emit)
			return
		}
		if hi&tail != tail {
			encode(lo, hi&^tail-1, emit)
			encode(hi&^tail, hi, emit)
			return
		}
	}
	from, to := utf8.AppendRune(nil, lo), utf8.AppendRune(nil, hi)
	seq := make([]byteRange, len(from))
	for i := range from {
		seq[i] = byteRange{from[i], to[i]}
	}
	emit(seq)
}
