package pages

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// StateIO is the part of an engine context that moves sequence states. The
// methods mean what they mean in slotworker.Context.
type StateIO interface {
	SeqTokens(seq int32) int
	SeqRemove(seq, from, to int32) bool
	StateSize(seq int32) int
	StateGet(seq int32, dst []byte) int
	StateSet(seq int32, src []byte) int
}

// Probe is what a proof needs of an idle context.
type Probe struct {
	IO StateIO
	// From and To are two free sequences, or the same one where there is only one.
	From, To int32
	// Fill decodes n tokens of any kind into an empty sequence.
	Fill func(seq int32, n int) error
	// Next decodes one token, always the same, at a position and gives its logits.
	Next func(seq int32, pos int) ([]float32, error)
}

// ErrUnproven is the cause when a context's memory does not stand the proof.
// Pages must then stay off.
var ErrUnproven = errors.New("context pages are off")

func unprovenf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnproven, fmt.Errorf(format, args...))
}

// The proof's state is two pages of 8 cells and a tail of 3.
const (
	provePage = 8
	proveAll  = 2*provePage + 3
)

// Prove takes a state out of one sequence, cuts it into pages, joins them for
// another and compares: bytes, counts, and the logits of a next token, which
// must be the same to the bit. It also makes sure that a sequence can be cut at
// a page, that a page alone can be restored, and that a short blob is refused
// and leaves nothing. Both sequences are empty afterwards. The layout that it
// returns is the one to store and join pages with.
func Prove(p Probe) (Layout, error) {
	layout, err := p.prove()
	for _, seq := range []int32{p.From, p.To} {
		p.IO.SeqRemove(seq, 0, -1)
		if n := p.IO.SeqTokens(seq); n != 0 && err == nil {
			err = unprovenf("sequence %d keeps %d tokens after it was removed", seq, n)
		}
	}
	return layout, err
}

func (p Probe) prove() (Layout, error) {
	if err := p.Fill(p.From, proveAll); err != nil {
		return Layout{}, unprovenf("cannot fill sequence %d: %w", p.From, err)
	}
	whole, err := p.get(p.From, proveAll)
	if err != nil {
		return Layout{}, err
	}
	layout := whole.Layout
	if int(p.To) >= layout.Streams {
		return Layout{}, unprovenf("there is no stream for sequence %d: the memory is shared between sequences", p.To)
	}
	var pieces []Piece
	for at := 0; at < proveAll; at += provePage {
		n := min(provePage, proveAll-at)
		piece := Piece{Payload: make([]byte, n*layout.CellBytes()), Cells: n, Use: n}
		if err := whole.Cut(at, at+n, piece.Payload); err != nil {
			return Layout{}, unprovenf("%w", err)
		}
		pieces = append(pieces, piece)
	}
	want, err := p.Next(p.From, proveAll)
	if err != nil {
		return Layout{}, unprovenf("cannot decode after the state was read: %w", err)
	}
	want = slices.Clone(want)

	if err := p.restore(layout, pieces, proveAll); err != nil {
		return Layout{}, err
	}
	got, err := p.Next(p.To, proveAll)
	if err != nil {
		return Layout{}, unprovenf("cannot decode after a restore: %w", err)
	}
	if !slices.Equal(want, got) {
		return Layout{}, unprovenf("logits after a restore differ from those before")
	}
	if !p.IO.SeqRemove(p.To, provePage, -1) || p.IO.SeqTokens(p.To) != provePage {
		return Layout{}, unprovenf("a sequence cannot be cut at a page")
	}
	pieces[1].Use = 1
	if err := p.restore(layout, pieces[:2], provePage+1); err != nil {
		return Layout{}, err
	}
	return layout, p.proveShort(layout, pieces)
}

// get reads and parses the state of a sequence that must have n cells.
func (p Probe) get(seq int32, n int) (State, error) {
	if have := p.IO.SeqTokens(seq); have != n {
		return State{}, unprovenf("sequence %d has %d tokens instead of %d", seq, have, n)
	}
	blob := make([]byte, p.IO.StateSize(seq))
	if wrote := p.IO.StateGet(seq, blob); wrote != len(blob) {
		return State{}, unprovenf("the engine wrote %d of %d bytes of a state", wrote, len(blob))
	}
	s, err := ParseState(blob)
	if err != nil {
		return State{}, unprovenf("%w", err)
	}
	if s.Cells != n || s.Sequence != int(seq) {
		return State{}, unprovenf("the state of sequence %d with %d tokens says sequence %d, %d cells", seq, n, s.Sequence, s.Cells)
	}
	return s, nil
}

// restore joins pieces into the second sequence and compares what is then read back.
func (p Probe) restore(layout Layout, pieces []Piece, n int) error {
	blob, err := layout.Join(nil, int(p.To), pieces)
	if err != nil {
		return unprovenf("%w", err)
	}
	if read := p.IO.StateSet(p.To, blob); read != len(blob) {
		return unprovenf("the engine took %d of %d bytes of a state", read, len(blob))
	}
	back, err := p.get(p.To, n)
	if err != nil {
		return err
	}
	if !bytes.Equal(back.blob, blob) {
		return unprovenf("a restored state reads back differently")
	}
	return nil
}

// proveShort offers a blob without its last byte.
func (p Probe) proveShort(layout Layout, pieces []Piece) error {
	blob, err := layout.Join(nil, int(p.To), pieces)
	if err != nil {
		return unprovenf("%w", err)
	}
	if read := p.IO.StateSet(p.To, blob[:len(blob)-1]); read >= len(blob)-1 {
		return unprovenf("the engine took a state that was cut short")
	}
	p.IO.SeqRemove(p.To, 0, -1)
	if n := p.IO.SeqTokens(p.To); n != 0 {
		return unprovenf("%d tokens stay after a short restore", n)
	}
	return nil
}
