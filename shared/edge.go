package shared

import (
	"context"
	"time"
)

// Measured is a request as its edge saw it: the process whose write hands the
// first chunk to the client.
type Measured struct {
	Result
	// Phases is the closed account: it adds up to FirstChunk exactly.
	Phases       Phases
	FirstChunk   time.Duration // request parsed to first text written and flushed
	FullResponse time.Duration // request parsed to result
}

// GenerateAtEdge runs a request and closes its account of phases. start is when
// the request was parsed. deliver writes one chunk and flushes it; it gets the
// first chunk with content and the phases known so far. A request without any
// has no first frame: FirstChunk and the phases are zero.
//
// Other cannot become negative: every other phase was measured inside this
// function, one after the other.
func GenerateAtEdge(ctx context.Context, f Frontend, start time.Time, req GenerateRequest, deliver func(Chunk) error) (Measured, error) {
	var m Measured
	var known Phases
	res, err := f.Generate(ctx, req, func(c Chunk) error {
		if !c.HasContent() || m.FirstChunk != 0 {
			return deliver(c)
		}
		if c.Phases != nil {
			known = *c.Phases
		}
		received := time.Now()
		if err := deliver(c); err != nil {
			return err
		}
		flushed := time.Now()
		known.FirstChunkFlush = flushed.Sub(received)
		m.FirstChunk = flushed.Sub(start)
		return nil
	})
	if err != nil {
		return Measured{}, err
	}
	m.Result = res
	m.FullResponse = time.Since(start)
	if m.FirstChunk != 0 {
		m.Phases = known.Close(m.FirstChunk)
	}
	return m, nil
}
