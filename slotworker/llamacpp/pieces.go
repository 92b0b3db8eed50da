package llamacpp

import (
	"sync/atomic"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// pieces remembers the text of tokens, so that streaming does not cross into the
// library for each of them. Entries are filled when first asked for: a table of a
// large vocabulary would take tenths of a second at load.
type pieces struct {
	plain   []atomic.Pointer[[]byte]
	special []atomic.Pointer[[]byte]
}

func newPieces(vocab int) pieces {
	return pieces{
		plain:   make([]atomic.Pointer[[]byte], vocab),
		special: make([]atomic.Pointer[[]byte], vocab),
	}
}

// Piece is the text of one token, which callers must not change. Special tokens
// have none unless special is set, nor have tokens outside the vocabulary.
func (m *Model) Piece(token int32, special bool) []byte {
	if !m.valid(token) {
		return nil
	}
	entry := &m.pieces.plain[token]
	if special {
		entry = &m.pieces.special[token]
	}
	if known := entry.Load(); known != nil {
		return *known
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.handle == 0 {
		return nil
	}
	piece := make([]byte, 64)
	n := llama.TokenToPiece(m.vocab, llama.Token(token), piece, 0, special)
	if n < 0 {
		// A negative length is the length that is needed.
		piece = make([]byte, -n)
		n = llama.TokenToPiece(m.vocab, llama.Token(token), piece, 0, special)
	}
	piece = piece[:max(n, 0):max(n, 0)]
	entry.Store(&piece)
	return piece
}
