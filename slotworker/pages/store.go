package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Store keeps the pages of one slot. Its methods may be called from any
// goroutine; none but Load, Flush, DropHost and Close waits for the disk.
type Store struct {
	cfg   Config
	chain *chain
	shape string
	cell  int    // bytes
	off   string // why nothing is kept; empty for a store that works
	disk  *disk  // nil without a disk tier

	stopped context.Context // ends with Close
	stop    context.CancelFunc
	group   sync.WaitGroup
	wake    chan struct{} // for the writer
	low     chan struct{} // for the grower
	scanned chan struct{} // closed after the scan

	mu      sync.Mutex
	index   *index
	host    hostTier
	grown   chan struct{} // closed and replaced with each slab
	byFile  map[fileName]*entry
	loading map[fileName]chan struct{}
	// condemned files wait to be set aside.
	condemned map[fileName]bool
	queue     []*entry // to be written; those no longer marked queued are passed over
	chores    []chore
	busy      bool            // the writer is at work
	idle      []chan struct{} // closed when the writer has nothing left to do
	closed    bool
	count     counters
}

// Open makes a store and starts its goroutines. It does not wait for the disk:
// what is in the directory becomes known little by little.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("cannot open the context pages: %w", err)
	}
	cfg = cfg.withDefaults()
	s := newStore(cfg)
	s.shape, s.cell = cfg.Layout.Shape(), cfg.Layout.CellBytes()
	s.host.arena = newArena(s.cell, cfg.PageTokens, cfg.HostBytes, cfg.SlabBytes)
	s.group.Go(s.growWhenLow)
	notify(s.low)
	if cfg.Dir != "" {
		s.disk = newDisk(cfg.Dir, cfg.DiskBytes, cfg.Files, cfg.LockWait)
		s.busy = true // until the directory was opened
		s.group.Go(s.writeBehind)
	} else {
		close(s.scanned)
	}
	return s, nil
}

// Disabled is a store that keeps nothing: every lookup misses with
// arch_not_reusable. Why says for people what stands against pages.
func Disabled(pageTokens int, why string) *Store {
	s := newStore(Config{PageTokens: pageTokens}.withDefaults())
	s.off = why
	close(s.scanned)
	return s
}

func newStore(cfg Config) *Store {
	c := newChain(cfg.PageTokens, cfg.Exact, cfg.Hasher)
	s := &Store{
		cfg:       cfg,
		chain:     c,
		wake:      make(chan struct{}, 1),
		low:       make(chan struct{}, 1),
		scanned:   make(chan struct{}),
		index:     newIndex(c),
		grown:     make(chan struct{}),
		byFile:    make(map[fileName]*entry),
		loading:   make(map[fileName]chan struct{}),
		condemned: make(map[fileName]bool),
		count:     newCounters(),
	}
	s.stopped, s.stop = context.WithCancel(context.Background())
	return s
}

// Off says why the store keeps nothing; it is empty for one that does.
func (s *Store) Off() string { return s.off }

// Fits reports whether pages of this store can be joined to states of a layout,
// and cut from them. A context that was built anew may have another number of
// streams.
func (s *Store) Fits(l Layout) bool {
	return s.off == "" && slices.Equal(l.Planes, s.cfg.Layout.Planes)
}

// NewPrompt prepares a token sequence for the store. The slice is not copied
// and must not change.
func (s *Store) NewPrompt(tokens []int32) *Prompt {
	return &Prompt{chain: s.chain, tokens: slices.Clip(tokens)}
}

func (s *Store) space(salt string) Space { return NewSpace(s.cfg.Identity, salt) }

// own reports whether a page belongs to this store's slot, under any salt.
func (s *Store) own(space Space) bool {
	space.Salt = ""
	return space == s.space("")
}

// Flush waits until everything stored so far is on disk or given up.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	if s.disk == nil || s.closed || !s.busy && len(s.queue) == 0 && len(s.chores) == 0 {
		s.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	s.idle = append(s.idle, done)
	s.mu.Unlock()
	notify(s.wake)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot write all context pages to disk: %w", context.Cause(ctx))
	}
}

// DropHost gives the host tier's memory back after writing it to disk, and says
// how many bytes that was. Pages in use stay, and with them the memory.
func (s *Store) DropHost(ctx context.Context) (int64, error) {
	err := s.Flush(ctx)
	s.mu.Lock()
	for e := s.host.victim(); e != nil; e = s.host.victim() {
		s.evict(e)
	}
	slabs, used := s.dropSlabs()
	s.mu.Unlock()
	if used > 0 {
		err = errors.Join(err, fmt.Errorf("cannot give back the memory of context pages: %d are in use", used))
	}
	freed, unmapErr := s.unmap(slabs)
	return freed, errors.Join(err, unmapErr)
}

// Close writes what is queued, until ctx ends, stops the store's goroutines and
// gives its memory back. Plans must have been released; the memory of those that
// were not is left alone, and Close says so.
func (s *Store) Close(ctx context.Context) error {
	err := s.Flush(ctx)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.group.Wait()
	s.mu.Lock()
	for e := s.host.victim(); e != nil; e = s.host.victim() {
		s.evict(e)
	}
	slabs, used := s.dropSlabs()
	s.mu.Unlock()
	if used > 0 {
		err = errors.Join(err, fmt.Errorf("%d context pages are still in use", used))
	}
	_, unmapErr := s.unmap(slabs)
	err = errors.Join(err, unmapErr)
	if s.disk != nil {
		err = errors.Join(err, s.disk.leave())
	}
	return err
}

// dropSlabs empties the arena unless a page is in use.
func (s *Store) dropSlabs() (slabs [][]byte, used int) {
	if s.off != "" {
		return nil, 0
	}
	if used = s.host.pages + s.host.filling; used > 0 {
		return nil, used
	}
	return s.host.arena.drop(), 0
}

func (s *Store) unmap(slabs [][]byte) (freed int64, err error) {
	for _, slab := range slabs {
		freed += int64(len(slab))
		err = errors.Join(err, s.cfg.Memory.Unmap(slab))
	}
	return freed, err
}

// notify wakes a goroutine that will look for itself what there is to do.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
