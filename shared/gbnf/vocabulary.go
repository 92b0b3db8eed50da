package gbnf

import (
	"bytes"
	"slices"
)

// Vocabulary is a model's tokens in the order of their bytes, so that those which
// begin alike are tried together.
type Vocabulary struct {
	size   int
	sorted []int32
	common []uint16 // bytes that a token has in common with the one before it
	piece  func(int32) []byte
	end    []int32
	ends   map[int32]bool
}

// NewVocabulary reads the bytes of size tokens. Tokens without any are never
// chosen, apart from those that end a text.
func NewVocabulary(size int, piece func(token int32) []byte, isEnd func(token int32) bool) *Vocabulary {
	v := &Vocabulary{size: size, piece: piece, ends: map[int32]bool{}}
	for t := range int32(size) {
		switch {
		case isEnd(t):
			v.end = append(v.end, t)
			v.ends[t] = true
		case len(piece(t)) > 0:
			v.sorted = append(v.sorted, t)
		}
	}
	slices.SortFunc(v.sorted, func(a, b int32) int { return bytes.Compare(piece(a), piece(b)) })
	v.common = make([]uint16, len(v.sorted))
	for i := 1; i < len(v.sorted); i++ {
		a, b := piece(v.sorted[i-1]), piece(v.sorted[i])
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		v.common[i] = uint16(min(n, 1<<16-1))
	}
	return v
}

// Size is how many tokens there are.
func (v *Vocabulary) Size() int { return v.size }

// Guide says which tokens may come next in one answer.
type Guide struct {
	*Matcher
	words *Vocabulary
	mask  []uint64
	path  []int32
}

// NewGuide starts an answer.
func NewGuide(g *Grammar, v *Vocabulary) (*Guide, error) {
	m, err := g.NewMatcher()
	return &Guide{Matcher: m, words: v}, err
}

// Allows says whether a token may come next.
func (g *Guide) Allows(token int32) bool {
	if g.words.ends[token] {
		return g.Complete()
	}
	piece := g.words.piece(token)
	return len(piece) > 0 && g.Fits(piece)
}

// Mask has a bit for each token that may come next; it is valid until the next
// call. There is none when no token fits or the grammar could not be followed.
func (g *Guide) Mask() []uint64 {
	if g.mask == nil {
		g.mask = make([]uint64, (g.words.size+63)/64)
	}
	clear(g.mask)
	any := false
	set := func(t int32) {
		g.mask[t/64] |= 1 << (t % 64)
		any = true
	}
	if g.Complete() {
		for _, t := range g.words.end {
			set(t)
		}
	}
	g.path = append(g.path[:0], g.current) // the state after each byte, while alive
	for i, t := range g.words.sorted {
		shared := int(g.words.common[i])
		if shared >= len(g.path) {
			continue // the bytes that did not fit are in this one too
		}
		g.path = g.path[:shared+1]
		text := g.words.piece(t)
		for _, b := range text[shared:] {
			next := g.step(g.path[len(g.path)-1], b)
			if g.Err() != nil {
				return nil
			}
			if next == dead {
				break
			}
			g.path = append(g.path, next)
		}
		if len(g.path) == len(text)+1 {
			set(t)
		}
	}
	if !any {
		return nil
	}
	return g.mask
}

// Take adds a token to the answer.
func (g *Guide) Take(token int32) error {
	if g.words.ends[token] {
		return g.Err()
	}
	return g.Advance(g.words.piece(token))
}
