package pages

// Memory provides the host memory that pages lie in. A slab is asked for when it
// is needed and given back only when the tier is dropped, so that the first
// touch of fresh memory, which is dear, is paid once.
type Memory interface {
	Map(bytes int) ([]byte, error)
	Unmap(slab []byte) error
}

// A frame has room for one full page and is given out in quarters, so that
// incomplete pages do not take a whole one.
const frameQuarters = 4

// block is a page's place in a frame.
type block struct {
	frame    *frame
	first    int // quarter
	quarters int
	mem      []byte // exactly the payload
}

type frame struct {
	mem  []byte
	used uint8 // one bit a quarter
	at   int   // in arena.free of its longest free run
}

// arena cuts slabs into frames and frames into blocks. It never asks for memory
// itself, and moves nothing. The store's mutex guards it.
type arena struct {
	cell      int // bytes
	quarter   int // cells
	slab      int // frames a slab
	most      int // frames that the budget allows
	promised  int // frames of slabs that are being mapped
	slabs     [][]byte
	frames    int
	free      [frameQuarters + 1][]*frame
	usedBytes int64 // of quarters in use
}

func newArena(cell, page int, budget int64, slabBytes int) *arena {
	a := &arena{cell: cell, quarter: (page + frameQuarters - 1) / frameQuarters}
	a.most = int(budget / int64(a.frameBytes()))
	a.slab = max(1, slabBytes/a.frameBytes())
	return a
}

func (a *arena) frameBytes() int { return a.quarter * frameQuarters * a.cell }

// nextSlab promises the frames of a further slab, 0 when the budget is used up.
func (a *arena) nextSlab() (frames int) {
	frames = min(a.slab, a.most-a.frames-a.promised)
	a.promised += frames
	return frames
}

// runningLow reports whether the free frames are running low.
func (a *arena) runningLow() bool { return len(a.free[frameQuarters]) <= a.slab/2 }

// add takes over a slab that nextSlab promised.
func (a *arena) add(slab []byte) {
	n := len(slab) / a.frameBytes()
	a.promised -= n
	a.frames += n
	a.slabs = append(a.slabs, slab)
	for i := range n {
		f := &frame{mem: slab[i*a.frameBytes() : (i+1)*a.frameBytes()]}
		a.list(f)
	}
}

// abandon takes a promise back that the system did not keep; the arena then
// stays as large as it is.
func (a *arena) abandon(frames int) {
	a.promised -= frames
	a.most = min(a.most, a.frames+a.promised)
}

// take finds room for that many cells, nil when there is none. It prefers the
// frame with the least room that will do.
func (a *arena) take(cells int) *block {
	need := (cells + a.quarter - 1) / a.quarter
	for run := need; run <= frameQuarters; run++ {
		if n := len(a.free[run]); n > 0 {
			return a.carve(a.free[run][n-1], need, cells)
		}
	}
	return nil
}

func (a *arena) carve(f *frame, need, cells int) *block {
	want := uint8(1)<<need - 1
	first := 0
	for f.used&(want<<first) != 0 {
		first++
	}
	a.unlist(f)
	f.used |= want << first
	a.list(f)
	a.usedBytes += int64(need * a.quarter * a.cell)
	at := first * a.quarter * a.cell
	return &block{frame: f, first: first, quarters: need, mem: f.mem[at : at+cells*a.cell : at+cells*a.cell]}
}

func (a *arena) give(b *block) {
	a.unlist(b.frame)
	b.frame.used &^= (uint8(1)<<b.quarters - 1) << b.first
	a.list(b.frame)
	a.usedBytes -= int64(b.quarters * a.quarter * a.cell)
}

// drop forgets all slabs, which must be unused, and returns them.
func (a *arena) drop() [][]byte {
	slabs := a.slabs
	a.slabs, a.frames = nil, 0
	a.free = [frameQuarters + 1][]*frame{}
	return slabs
}

func (a *arena) list(f *frame) {
	run := longestFree(f.used)
	f.at = len(a.free[run])
	a.free[run] = append(a.free[run], f)
}

func (a *arena) unlist(f *frame) {
	list := a.free[longestFree(f.used)]
	last := list[len(list)-1]
	list[f.at], last.at = last, f.at
	a.free[longestFree(f.used)] = list[:len(list)-1]
}

// longestFree is the longest run of free quarters.
func longestFree(used uint8) int {
	best, run := 0, 0
	for q := range frameQuarters {
		if used&(1<<q) != 0 {
			run = 0
			continue
		}
		run++
		best = max(best, run)
	}
	return best
}
