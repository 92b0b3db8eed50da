package slotworker

import (
	"github.com/firstframe/firstframe/shared/gbnf"
)

// constraint keeps an answer to a grammar.
type constraint interface {
	Allowed
	// Take adds a token to the answer.
	Take(token int32) error
	// Finished says whether the answer has to end.
	Finished() bool
	// Err is why the grammar cannot be followed, once it cannot.
	Err() error
}

var (
	_ constraint = (*gbnf.Guide)(nil)
	_ constraint = (*toolGuide)(nil)
)

// toolGuide leaves an answer free until a call of a tool begins in it.
type toolGuide struct {
	format *toolFormat
	words  *gbnf.Vocabulary
	behind *gbnf.Grammar // of what follows where calls begin
	piece  func(int32) []byte
	think  thinkSplitter // in what is thought no call begins
	text   string        // so far that may become a call
	free   bool          // no call can come any more
	active *gbnf.Guide
	mask   []uint64
	err    error
}

// Allows says whether a token may come next: while the answer is free, any that
// does not begin a call in a wrong way.
func (g *toolGuide) Allows(token int32) bool {
	switch {
	case g.active != nil:
		return g.active.Allows(token)
	case g.free:
		return true
	}
	think := g.think
	_, said := think.push(string(g.piece(token)))
	_, err := g.begun(g.text + said)
	return err == nil
}

// begun starts the grammar when a call begins in the text; nil when none does.
func (g *toolGuide) begun(text string) (*gbnf.Guide, error) {
	_, end, found := g.format.trigger(text)
	if !found {
		return nil, nil
	}
	guide, err := gbnf.NewGuide(g.behind, g.words)
	if err == nil {
		err = guide.Advance([]byte(text[end:]))
	}
	return guide, err
}

// Mask has a bit for each token that may come next.
func (g *toolGuide) Mask() []uint64 {
	if g.active != nil {
		return g.active.Mask()
	}
	g.mask = make([]uint64, (g.words.Size()+63)/64)
	for t := range int32(g.words.Size()) {
		if g.Allows(t) {
			g.mask[t/64] |= 1 << (t % 64)
		}
	}
	return g.mask
}

// Take adds a token to the answer.
func (g *toolGuide) Take(token int32) error {
	switch {
	case g.active != nil:
		return g.active.Take(token)
	case g.free:
		return nil
	}
	_, said := g.think.push(string(g.piece(token)))
	g.text += said
	at, _, found := g.format.trigger(g.text)
	if found {
		g.active, g.err = g.begun(g.text)
		return g.err
	}
	if g.format.marker == "" && g.text != "" && at == len(g.text) {
		g.free = true
	}
	g.text = g.text[at:]
	return nil
}

// Finished says whether the answer has to end.
func (g *toolGuide) Finished() bool { return g.active != nil && g.active.Finished() }

// Err is why the grammar cannot be followed, once it cannot.
func (g *toolGuide) Err() error {
	if g.active != nil {
		return g.active.Err()
	}
	return g.err
}
