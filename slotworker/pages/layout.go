package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// The sequence-state blob of the engine (version 0.5.0, one stream a sequence,
// flash attention on), little endian:
//
//	u32 magic, u32 sequence, u32 streams
//	for each stream: u32 cells, and for the one that has any:
//	    cells × (i32 position, u32 1, i32 sequence)
//	    u32 0 (values are not transposed), u32 layers
//	    layers × (u32 type, u64 row bytes, cells × row) of keys
//	    layers × (u32 type, u64 row bytes, cells × row) of values
//
// The stream's place in the list is the sequence's number.
const (
	stateMagic  = 0xaf143cd8
	cellBytes   = 12
	planeHead   = 12
	maxStreams  = 4096
	maxLayers   = 4096
	maxRowBytes = 1 << 24
	maxCells    = 1 << 26
)

// ErrState is the cause of every error about a state blob.
var ErrState = errors.New("state blob is not of the known form")

func stateErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrState, fmt.Sprintf(format, args...))
}

// Plane is one tensor's share of a state: a row a cell. The planes are the keys
// of all layers, then the values of all layers.
type Plane struct {
	Type uint32 // the engine's number of the element type
	Row  int    // bytes
}

// Layout is the form of a context's state: all that two blobs must have in
// common so that rows of one may stand in the other.
type Layout struct {
	Streams int
	Planes  []Plane
}

// CellBytes is the size of one token's rows in all planes.
func (l Layout) CellBytes() int {
	sum := 0
	for _, p := range l.Planes {
		sum += p.Row
	}
	return sum
}

// StateBytes is the size of the blob of one sequence with that many cells.
func (l Layout) StateBytes(cells int) int {
	return 12 + 4*l.Streams + cellBytes*cells + 8 + len(l.Planes)*planeHead + cells*l.CellBytes()
}

// Equal reports whether blobs of both layouts have the same form.
func (l Layout) Equal(o Layout) bool {
	return l.Streams == o.Streams && slices.Equal(l.Planes, o.Planes)
}

// Shape is a digest of the planes. A page of another shape never fits. The
// number of streams is left out: it is not in the pages.
func (l Layout) Shape() string {
	b := make([]byte, 0, len(l.Planes)*planeHead)
	for _, p := range l.Planes {
		b = binary.LittleEndian.AppendUint32(b, p.Type)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Row))
	}
	return shared.HashFields(domainShape, string(b))
}

// State is a parsed blob. It points into the blob's memory.
type State struct {
	Layout   Layout
	Sequence int
	Cells    int
	blob     []byte
	rows     []int // where each plane's rows start
}

// ParseState takes a blob apart. Everything is checked, also that the cells are
// the positions 0, 1, 2, … in this order; any doubt is an error, since rows
// taken from a wrong place would be served as somebody's context.
func ParseState(blob []byte) (State, error) {
	r := reader{b: blob}
	if magic := r.u32(); !r.short && magic != stateMagic {
		return State{}, stateErrorf("magic is %#x", magic)
	}
	s := State{Sequence: int(r.u32()), blob: blob}
	s.Layout.Streams = int(r.u32())
	if s.Layout.Streams < 1 || s.Layout.Streams > maxStreams {
		return State{}, stateErrorf("%d streams", s.Layout.Streams)
	}
	if s.Sequence >= s.Layout.Streams {
		return State{}, stateErrorf("sequence %d in %d streams: the memory is shared between sequences", s.Sequence, s.Layout.Streams)
	}
	for stream := range s.Layout.Streams {
		cells := int(r.u32())
		switch {
		case r.short:
			return State{}, stateErrorf("it ends in stream %d", stream)
		case cells == 0:
		case stream != s.Sequence:
			return State{}, stateErrorf("stream %d has cells of sequence %d", stream, s.Sequence)
		case cells > maxCells:
			return State{}, stateErrorf("%d cells", cells)
		default:
			s.Cells = cells
			if err := s.parseStream(&r); err != nil {
				return State{}, err
			}
		}
	}
	switch {
	case s.Cells == 0:
		return State{}, stateErrorf("sequence %d is empty", s.Sequence)
	case len(r.b) != r.at:
		return State{}, stateErrorf("%d bytes follow the known parts", len(r.b)-r.at)
	}
	return s, nil
}

func (s *State) parseStream(r *reader) error {
	list := r.take(s.Cells * cellBytes)
	if r.short {
		return stateErrorf("it ends in the cell list")
	}
	for i := range s.Cells {
		cell := list[i*cellBytes:]
		pos, owners, seq := binary.LittleEndian.Uint32(cell), binary.LittleEndian.Uint32(cell[4:]), binary.LittleEndian.Uint32(cell[8:])
		if pos != uint32(i) || owners != 1 || seq != uint32(s.Sequence) {
			return stateErrorf("cell %d holds position %d of sequence %d with %d owners", i, int32(pos), seq, owners)
		}
	}
	transposed, layers := r.u32(), int(r.u32())
	switch {
	case r.short:
		return stateErrorf("it ends after the cell list")
	case transposed != 0:
		return stateErrorf("values are transposed: flash attention is off")
	case layers < 1 || layers > maxLayers:
		return stateErrorf("%d layers", layers)
	}
	s.Layout.Planes = make([]Plane, 0, 2*layers)
	s.rows = make([]int, 0, 2*layers)
	for i := range 2 * layers {
		kind, row := r.u32(), r.u64()
		if !r.short && (row < 1 || row > maxRowBytes) {
			return stateErrorf("plane %d has rows of %d bytes", i, row)
		}
		s.Layout.Planes = append(s.Layout.Planes, Plane{Type: kind, Row: int(row)})
		s.rows = append(s.rows, r.at)
		r.take(s.Cells * int(row))
		if r.short {
			return stateErrorf("it ends in plane %d of %d", i, 2*layers)
		}
	}
	return nil
}

// Cut copies the rows of cells from..to into dst, plane by plane: a page's
// payload. dst must have exactly their size.
func (s State) Cut(from, to int, dst []byte) error {
	spans, err := s.cutSpans(nil, from, to, dst)
	if err != nil {
		return err
	}
	copySpans(spans)
	return nil
}

func (s State) cutSpans(spans []span, from, to int, dst []byte) ([]span, error) {
	if from < 0 || from >= to || to > s.Cells {
		return nil, fmt.Errorf("cannot cut cells %d to %d out of %d", from, to, s.Cells)
	}
	if want := (to - from) * s.Layout.CellBytes(); len(dst) != want {
		return nil, fmt.Errorf("cannot cut %d bytes into a buffer of %d", want, len(dst))
	}
	for i, p := range s.Layout.Planes {
		n := (to - from) * p.Row
		at := s.rows[i] + from*p.Row
		spans = append(spans, span{dst: dst[:n], src: s.blob[at : at+n]})
		dst = dst[n:]
	}
	return spans, nil
}

// reader takes numbers off a byte slice. Past the end short is set and
// everything read is 0.
type reader struct {
	b     []byte
	at    int
	short bool
}

func (r *reader) take(n int) []byte {
	if r.short || n < 0 || n > len(r.b)-r.at {
		r.short = true
		return nil
	}
	b := r.b[r.at : r.at+n]
	r.at += n
	return b
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
