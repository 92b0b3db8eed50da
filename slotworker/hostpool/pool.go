package hostpool

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/firstframe/firstframe/shared"
)

// Config describes a Pool. Alloc and Free are required; they may be called from
// several goroutines at once.
type Config struct {
	// Budget is the most bytes that may be locked at once, those kept for reuse
	// among them. 0 sets no limit.
	Budget int64
	// Keep is the most bytes of given back blocks that are kept locked for reuse.
	// 0 keeps none.
	Keep int64
	// Alloc gives a block of exactly that many bytes.
	Alloc func(bytes int64) ([]byte, error)
	// Free takes a block that Alloc gave. When it fails the block counts as locked
	// still, and is freed again when room is short and at the end.
	Free func(b []byte) error
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Budget < 0 || c.Keep < 0:
		return errors.New("the budget of a host pool and what it keeps are not negative")
	case c.Alloc == nil || c.Free == nil:
		return errors.New("a host pool needs functions that allocate and free")
	default:
		return nil
	}
}

// Stats is what a pool holds, in bytes that are locked. Used, Idle and Stuck add
// up to what is charged to the budget.
type Stats struct {
	Budget int64
	Used   int64 // handed out, or about to be
	Idle   int64 // kept for reuse, or just being freed
	Stuck  int64 // could not be freed
	Blocks int   // handed out
	Reused int64 // how often a kept block served again
}

// Pool is safe for concurrent use.
type Pool struct {
	cfg Config

	mu     sync.Mutex
	used   map[*byte]int64    // locked bytes of each block that is out, by its first byte
	idle   map[int64][][]byte // kept blocks by size, the last one given back at the end
	kept   int64              // bytes of the blocks in idle
	stuck  [][]byte
	stats  Stats
	closed bool
}

// New makes an empty pool. A wrong configuration is a mistake in the program.
func New(cfg Config) *Pool {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Pool{cfg: cfg, used: map[*byte]int64{}, idle: map[int64][][]byte{}, stats: Stats{Budget: cfg.Budget}}
}

// Size is how many bytes a block of n bytes takes from the budget. Blocks whose
// sizes are nearly equal take the same, so that one can follow the other.
func Size(n int64) int64 {
	const page, most = 4 << 10, 2 << 20
	step := int64(page)
	for step < most && step*16 <= n {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// Get gives a block of n bytes; what is in it is undefined. It fails with
// KindUnavailable when the budget or the memory is exhausted.
func (p *Pool) Get(n int64) ([]byte, error) {
	if n <= 0 || n > 1<<46 {
		return nil, shared.Errorf(shared.KindInvalid, "cannot lock %d bytes of host memory", n)
	}
	size := Size(n)
	b, err := p.reserve(size)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b, err = p.cfg.Alloc(size)
		if err != nil && p.reclaim(nil) {
			b, err = p.cfg.Alloc(size) // what was kept may be what the machine lacked
		}
		if err == nil && int64(len(b)) != size {
			return nil, p.surprise(b, size)
		}
	}
	p.mu.Lock()
	if err != nil {
		p.stats.Used -= size
		p.mu.Unlock()
		return nil, err
	}
	if p.closed {
		p.stats.Used -= size
		p.stats.Idle += size
		p.mu.Unlock()
		return nil, errors.Join(errClosed(), p.free(b))
	}
	p.used[unsafe.SliceData(b)] = size
	p.stats.Blocks++
	p.mu.Unlock()
	return b[:n:n], nil
}

// surprise is for an Alloc that keeps its word badly: the block goes back.
func (p *Pool) surprise(b []byte, size int64) error {
	p.mu.Lock()
	p.stats.Used -= size
	p.stats.Idle += int64(len(b))
	p.mu.Unlock()
	return errors.Join(fmt.Errorf("%d bytes of host memory came for %d", len(b), size), p.free(b))
}

// reserve charges size bytes, and gives the kept block of that size if there is one.
func (p *Pool) reserve(size int64) ([]byte, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, errClosed()
		}
		if b := p.pop(size); b != nil {
			p.stats.Idle -= size
			p.stats.Used += size
			p.stats.Reused++
			p.mu.Unlock()
			return b, nil
		}
		short := p.short(size)
		if short <= 0 {
			p.stats.Used += size
			p.mu.Unlock()
			return nil, nil
		}
		s := p.stats
		p.mu.Unlock()
		if !p.reclaim(&short) {
			return nil, shared.Errorf(shared.KindUnavailable,
				"page-locked host memory is short by %d bytes: %d are asked for, and of the budget of %d there are %d in use and %d that cannot be freed",
				short, size, s.Budget, s.Used, s.Stuck)
		}
	}
}

// short is how much of the budget is missing for size bytes more.
func (p *Pool) short(size int64) int64 {
	if p.cfg.Budget == 0 {
		return 0
	}
	return p.stats.Used + p.stats.Idle + p.stats.Stuck + size - p.cfg.Budget
}

// reclaim frees kept blocks, and tries the stuck ones again, until need bytes came
// free; all of them for nil. It reports whether any did.
func (p *Pool) reclaim(need *int64) bool {
	var freed int64
	p.mu.Lock()
	stuck := p.stuck
	p.stuck = nil
	for _, b := range stuck {
		p.stats.Stuck -= int64(len(b))
		p.stats.Idle += int64(len(b))
	}
	p.mu.Unlock()
	for _, b := range stuck {
		if p.free(b) == nil {
			freed += int64(len(b))
		}
	}
	for need == nil || freed < *need {
		b := p.takeIdle()
		if b == nil {
			break
		}
		if p.free(b) == nil {
			freed += int64(len(b))
		}
	}
	return freed > 0
}

// takeIdle takes the largest kept block out; its bytes stay charged as idle.
func (p *Pool) takeIdle() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var largest int64
	for size := range p.idle {
		largest = max(largest, size)
	}
	return p.pop(largest)
}

// pop takes a kept block of a size, nil when there is none. The lock is held.
func (p *Pool) pop(size int64) []byte {
	same := p.idle[size]
	if len(same) == 0 {
		return nil
	}
	last := len(same) - 1
	b := same[last]
	if same[last] = nil; last == 0 {
		delete(p.idle, size)
	} else {
		p.idle[size] = same[:last]
	}
	p.kept -= size
	return b
}

// free gives back a block that is charged as idle.
func (p *Pool) free(b []byte) error {
	err := p.cfg.Free(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Idle -= int64(len(b))
	if err != nil {
		p.stats.Stuck += int64(len(b))
		p.stuck = append(p.stuck, b)
		return shared.Errorf(shared.KindOf(err), "cannot free %d bytes of page-locked host memory: %w", len(b), err)
	}
	return nil
}

// Put gives back what Get gave, begun at its first byte. Nothing may use the block
// afterwards, also when Put fails: its memory is then charged until freeing works.
func (p *Pool) Put(b []byte) error {
	first := unsafe.SliceData(b)
	p.mu.Lock()
	size, ours := p.used[first]
	if !ours {
		p.mu.Unlock()
		return shared.Errorf(shared.KindInvalid, "a block of %d bytes that this pool has not handed out came back to it", len(b))
	}
	delete(p.used, first)
	p.stats.Blocks--
	p.stats.Used -= size
	p.stats.Idle += size
	whole := unsafe.Slice(first, size)
	if !p.closed && p.kept+size <= p.cfg.Keep {
		p.idle[size] = append(p.idle[size], whole)
		p.kept += size
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	return p.free(whole)
}

// Stats is what the pool holds now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close frees what is kept and what could not be freed before, and hands out
// nothing more. Blocks that are out are freed when they are given back; Close
// fails while there are any, and while memory cannot be freed. It may be called
// again.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.reclaim(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Used > 0 || p.stats.Stuck > 0 {
		return shared.Errorf(shared.KindBusy, "page-locked host memory is left: %d bytes are in use and %d cannot be freed", p.stats.Used, p.stats.Stuck)
	}
	return nil
}

func errClosed() error {
	return shared.Errorf(shared.KindShuttingDown, "the pool of page-locked host memory is closed")
}
