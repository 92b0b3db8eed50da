package gbnf

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Bounds of a matcher. What a text of one token may lead to is bounded by them
// in time, what is remembered from earlier tokens in memory.
const (
	maxItems  = 1 << 12 // ways through the grammar side by side
	maxFresh  = 1 << 18 // ways looked at for one token
	maxStates = 1 << 12 // remembered; each has a table of 1 KiB
	maxFrames = 1 << 18
)

// errTooComplex ends a text whose grammar leaves too many ways open.
var errTooComplex = errors.New("the grammar is too ambiguous: too many ways to go on have to be followed side by side")

// item is one way through the program: an instruction that reads a byte, and
// where to return to.
type item struct{ at, frame int32 }

// frame is a rule that was called, to be returned from; number 0 is outside of all.
type frame struct{ back, parent int32 }

// state is all ways together after some text.
type state struct {
	items    []item
	complete bool // the text may end here
	next     [256]int32
}

// Numbers that are no states, in next.
const (
	unknown = 0
	dead    = -1
)

// Matcher follows one text. It is not safe for concurrent use.
type Matcher struct {
	grammar *Grammar
	states  []state // the first one is not used: its number means unknown
	known   map[string]int32
	frames  []frame
	calls   map[frame]int32
	current int32
	fresh   int // items looked at since the last Advance
	err     error

	// Of the state that is being made.
	making   state
	seen     map[item]bool
	todo     []item
	keyBytes []byte
}

// NewMatcher starts at the beginning of a text.
func (g *Grammar) NewMatcher() (*Matcher, error) {
	m := &Matcher{grammar: g}
	m.forget()
	m.add(g.start[g.root], 0)
	m.current = m.intern()
	if m.err == nil && m.current == dead {
		m.err = errors.New("the grammar matches no text at all")
	}
	return m, m.err
}

// forget drops everything that was remembered.
func (m *Matcher) forget() {
	m.states = append(m.states[:0], state{})
	m.known = map[string]int32{}
	m.frames = append(m.frames[:0], frame{})
	m.calls = map[frame]int32{}
	m.seen = map[item]bool{}
}

// Complete says whether the text may end here.
func (m *Matcher) Complete() bool { return m.states[m.current].complete }

// Finished says whether the text has to end here.
func (m *Matcher) Finished() bool { return m.Complete() && len(m.states[m.current].items) == 0 }

// Fits says whether the text can go on with these bytes.
func (m *Matcher) Fits(text []byte) bool { return m.walk(m.current, text) != dead }

// Err is why the grammar could not be followed, once it could not.
func (m *Matcher) Err() error { return m.err }

// Advance adds bytes that fit.
func (m *Matcher) Advance(text []byte) error {
	to := m.walk(m.current, text)
	switch {
	case m.err != nil:
		return m.err
	case to == dead:
		return errors.New("the text does not fit the grammar")
	}
	m.current, m.fresh = to, 0
	if len(m.states) > maxStates/2 || len(m.frames) > maxFrames/2 {
		m.compact()
	}
	return m.err
}

func (m *Matcher) walk(from int32, text []byte) int32 {
	for _, b := range text {
		if from = m.step(from, b); from == dead {
			break
		}
	}
	return from
}

// step is the state after one more byte.
func (m *Matcher) step(from int32, b byte) int32 {
	if to := m.states[from].next[b]; to != unknown {
		return to
	}
	for _, i := range m.states[from].items {
		if in := m.grammar.program[i.at]; in.lo <= b && b <= in.hi {
			m.add(i.at+1, i.frame)
		}
	}
	to := m.intern()
	if m.err == nil {
		m.states[from].next[b] = to
	}
	return to
}

// add follows the program from an instruction to those that read a byte.
func (m *Matcher) add(at, frameID int32) {
	m.todo = append(m.todo, item{at, frameID})
	for len(m.todo) > 0 {
		i := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		if m.seen[i] {
			continue
		}
		m.fresh++
		if len(m.seen) >= maxItems || m.fresh > maxFresh || len(m.frames) >= maxFrames {
			m.err, m.todo = errTooComplex, m.todo[:0]
			return
		}
		m.seen[i] = true
		switch in := m.grammar.program[i.at]; in.op {
		case opByte:
			m.making.items = append(m.making.items, i)
		case opSplit:
			m.todo = append(m.todo, item{i.at + 1, i.frame}, item{in.x, i.frame})
		case opJump:
			m.todo = append(m.todo, item{in.x, i.frame})
		case opCall:
			m.todo = append(m.todo, item{m.grammar.start[in.x], m.call(i)})
		case opReturn:
			if i.frame == 0 {
				m.making.complete = true
				continue
			}
			f := m.frames[i.frame]
			m.todo = append(m.todo, item{f.back, f.parent})
		}
	}
}

// call is the frame of a rule that is called at an instruction. A rule called at
// the end of another returns to where that one would.
func (m *Matcher) call(i item) int32 {
	back := i.at + 1
	for m.grammar.program[back].op == opJump {
		back = m.grammar.program[back].x
	}
	if m.grammar.program[back].op == opReturn {
		return i.frame
	}
	return m.frame(frame{back, i.frame})
}

func (m *Matcher) frame(f frame) int32 {
	id, ok := m.calls[f]
	if !ok {
		id = int32(len(m.frames))
		m.frames = append(m.frames, f)
		m.calls[f] = id
	}
	return id
}

// intern gives the number of the state that was made, and starts the next one.
func (m *Matcher) intern() int32 {
	made := m.making
	m.making = state{}
	clear(m.seen)
	if m.err != nil || len(made.items) == 0 && !made.complete {
		return dead
	}
	slices.SortFunc(made.items, func(a, b item) int {
		if a.at != b.at {
			return int(a.at) - int(b.at)
		}
		return int(a.frame) - int(b.frame)
	})
	key := m.keyBytes[:0]
	if made.complete {
		key = append(key, 1)
	}
	for _, i := range made.items {
		key = binary.LittleEndian.AppendUint32(key, uint32(i.at))
		key = binary.LittleEndian.AppendUint32(key, uint32(i.frame))
	}
	m.keyBytes = key
	if id, ok := m.known[string(key)]; ok {
		return id
	}
	if len(m.states) >= maxStates {
		m.err = errTooComplex
		return dead
	}
	id := int32(len(m.states))
	m.states = append(m.states, made)
	m.known[string(key)] = id
	return id
}

// compact forgets all but the current state.
func (m *Matcher) compact() {
	old, frames := m.states[m.current], slices.Clone(m.frames)
	m.forget()
	moved := map[int32]int32{0: 0}
	for _, i := range old.items {
		// From the outermost call inwards, without recursion: calls can be deep.
		var chain []int32
		for f := i.frame; ; f = frames[f].parent {
			if _, ok := moved[f]; ok {
				break
			}
			chain = append(chain, f)
		}
		for _, f := range slices.Backward(chain) {
			moved[f] = m.frame(frame{frames[f].back, moved[frames[f].parent]})
		}
		m.making.items = append(m.making.items, item{i.at, moved[i.frame]})
	}
	m.making.complete = old.complete
	m.current = m.intern()
}
