package llamacpp

import (
	"fmt"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/slotworker"
)

// Results of llama_decode.
const (
	decoded       = 0
	noSpace       = 1
	decodeAborted = 2
)

// Decode computes one batch. Rows that the library would assert on or misread are
// refused with nothing changed.
func (c *Context) Decode(rows []slotworker.Row) error {
	c.logits = c.logits[:0]
	if err := c.fill(rows); err != nil {
		return err
	}
	code, err := llama.Decode(c.handle, c.batch)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", slotworker.ErrDecodeFailed, err)
	case code == noSpace:
		return slotworker.ErrNoKVSpace
	case code == decodeAborted:
		return slotworker.ErrDecodeAborted
	case code != decoded:
		return fmt.Errorf("%w: the engine returned %d", slotworker.ErrDecodeFailed, code)
	}
	for _, row := range rows {
		c.logits = append(c.logits, row.Logits)
	}
	for i, row := range rows {
		if row.Logits && hasNaN(c.Logits(i)) {
			c.logits = c.logits[:0]
			return fmt.Errorf("%w: engine produced NaN logits", slotworker.ErrDecodeFailed)
		}
	}
	return nil
}

// fill checks the rows and writes them into the batch.
func (c *Context) fill(rows []slotworker.Row) error {
	if len(rows) == 0 || len(rows) > len(c.rows.token) {
		return invalid("rows", "a batch of %d rows is not between 1 and %d", len(rows), len(c.rows.token))
	}
	outputs := 0
	for i, row := range rows {
		switch {
		case !c.model.valid(row.Token):
			return invalid("token", "token %d is not in the vocabulary of %d", row.Token, c.model.info.Vocab)
		case !c.valid(row.Seq):
			return invalid("seq", "sequence %d is not one of %d", row.Seq, c.sequences)
		case row.Pos < 0:
			return invalid("pos", "position %d is negative", row.Pos)
		}
		c.rows.token[i] = llama.Token(row.Token)
		c.rows.pos[i] = llama.Pos(row.Pos)
		*c.rows.seq[i] = llama.SeqId(row.Seq)
		c.rows.logits[i] = 0
		if row.Logits {
			c.rows.logits[i] = 1
			outputs++
		}
	}
	if outputs > c.outputs {
		return invalid("logits", "%d rows want logits, but the context was made for %d", outputs, c.outputs)
	}
	c.batch.NTokens = int32(len(rows))
	return nil
}

// Logits are those of one row of the last Decode, in the library's memory and
// valid until the next one. A row that asked for none has none.
func (c *Context) Logits(row int) []float32 {
	if row < 0 || row >= len(c.logits) || !c.logits[row] {
		return nil
	}
	logits, err := llama.GetLogitsIth(c.handle, int32(row), c.model.info.Vocab)
	if err != nil {
		return nil
	}
	return logits
}

// Embedding is the vector of one row of the last Decode, in the library's memory
// and valid until the next one.
func (c *Context) Embedding(row int) []float32 {
	if !c.embeds || row < 0 || row >= len(c.logits) || !c.logits[row] {
		return nil
	}
	vector, err := llama.GetEmbeddingsIth(c.handle, int32(row), int32(c.model.info.Embedding))
	if err != nil {
		return nil
	}
	return vector
}

// Sample chooses a token for one row and accepts it. It gives -1 for a row that
// has no logits, and for a sampler of another model.
func (c *Context) Sample(s slotworker.Sampler, row int) int32 {
	own := c.sampler(s, row)
	if own == nil {
		return llama.TokenNull
	}
	return int32(llama.SamplerSample(own.chain, c.handle, int32(row)))
}

// sampler is the one to use for a row, nil when the row has no logits or the
// sampler is none of this model's.
func (c *Context) sampler(s slotworker.Sampler, row int) *Sampler {
	own, ok := s.(*Sampler)
	if !ok || own.model != c.model || own.chain == 0 || row < 0 || row >= len(c.logits) || !c.logits[row] {
		return nil
	}
	return own
}

// hasNaN adds the numbers up, since a sum with a NaN in it is one, and that is
// much faster than looking at each; infinities of both signs make one as well.
func hasNaN(logits []float32) bool {
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(logits); i += 4 {
		a += logits[i]
		b += logits[i+1]
		c += logits[i+2]
		d += logits[i+3]
	}
	for ; i < len(logits); i++ {
		a += logits[i]
	}
	sum := a + b + c + d
	if sum == sum {
		return false
	}
	for _, v := range logits {
		if v != v {
			return true
		}
	}
	return false
}
