package pages

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Piece is one page on its way into a state: its payload, how many cells the
// payload has, and how many of them, from the first, are used.
type Piece struct {
	Payload []byte
	Cells   int
	Use     int
}

// Join writes the state of a sequence made of pieces, which follow each other
// from position 0. It uses dst's memory when that is large enough and returns
// the blob; the engine takes it into the sequence at any time.
func (l Layout) Join(dst []byte, sequence int, pieces []Piece) ([]byte, error) {
	if sequence < 0 || sequence >= l.Streams {
		return nil, fmt.Errorf("cannot join a state for sequence %d of %d", sequence, l.Streams)
	}
	total, per := 0, l.CellBytes()
	for i, p := range pieces {
		if p.Use < 1 || p.Use > p.Cells || len(p.Payload) != p.Cells*per {
			return nil, fmt.Errorf("cannot join piece %d: %d of %d cells in %d bytes, %d a cell", i, p.Use, p.Cells, len(p.Payload), per)
		}
		total += p.Use
	}
	if total == 0 {
		return nil, fmt.Errorf("cannot join a state without cells")
	}
	size := l.StateBytes(total)
	dst = slices.Grow(dst[:0], size)[:size]
	copySpans(l.joinSpans(dst, sequence, total, pieces))
	return dst, nil
}

// joinSpans writes everything but the rows and lists the rows' copies.
func (l Layout) joinSpans(dst []byte, sequence, cells int, pieces []Piece) []span {
	w := dst[:0]
	w = binary.LittleEndian.AppendUint32(w, stateMagic)
	w = binary.LittleEndian.AppendUint32(w, uint32(sequence))
	w = binary.LittleEndian.AppendUint32(w, uint32(l.Streams))
	spans := make([]span, 0, len(pieces)*len(l.Planes))
	for stream := range l.Streams {
		if stream != sequence {
			w = binary.LittleEndian.AppendUint32(w, 0)
			continue
		}
		w = binary.LittleEndian.AppendUint32(w, uint32(cells))
		for i := range cells {
			w = binary.LittleEndian.AppendUint32(w, uint32(i))
			w = binary.LittleEndian.AppendUint32(w, 1)
			w = binary.LittleEndian.AppendUint32(w, uint32(sequence))
		}
		w = binary.LittleEndian.AppendUint32(w, 0)
		w = binary.LittleEndian.AppendUint32(w, uint32(len(l.Planes)/2))
		before := 0 // bytes a cell in the planes already passed
		for _, plane := range l.Planes {
			w = binary.LittleEndian.AppendUint32(w, plane.Type)
			w = binary.LittleEndian.AppendUint64(w, uint64(plane.Row))
			for _, p := range pieces {
				n, at := p.Use*plane.Row, p.Cells*before
				spans = append(spans, span{dst: w[len(w) : len(w)+n], src: p.Payload[at : at+n]})
				w = w[:len(w)+n]
			}
			before += plane.Row
		}
	}
	return spans
}

// span is one copy of equal lengths.
type span struct{ dst, src []byte }

// Below parallelFrom bytes one goroutine copies faster than several start.
const (
	parallelFrom = 4 << 20
	parallelMost = 4
)

// copySpans copies all spans, shared out by bytes when there is much to copy.
func copySpans(spans []span) {
	total := 0
	for _, s := range spans {
		total += len(s.src)
	}
	workers := min(runtime.GOMAXPROCS(0), parallelMost)
	if total < parallelFrom || workers < 2 {
		for _, s := range spans {
			copy(s.dst, s.src)
		}
		return
	}
	var wg sync.WaitGroup
	share := (total + workers - 1) / workers
	for len(spans) > 0 {
		taken, n := 0, 0
		for n < len(spans) && taken < share {
			taken += len(spans[n].src)
			n++
		}
		mine := spans[:n]
		spans = spans[n:]
		wg.Go(func() {
			for _, s := range mine {
				copy(s.dst, s.src)
			}
		})
	}
	wg.Wait()
}
