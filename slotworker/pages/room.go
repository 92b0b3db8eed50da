package pages

import "fmt"

// room finds a block for a page in the making. Only pages that nobody uses give
// way for it; nil means that there are no more of these. The copy of page data
// into the block happens outside the mutex.
func (s *Store) room(cells int) *block {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		if b := s.host.fill(cells); b != nil {
			if s.host.arena.runningLow() {
				notify(s.low)
			}
			return b
		}
		if frames := s.host.arena.nextSlab(); frames > 0 {
			s.mu.Unlock()
			s.addSlab(frames, false)
			s.mu.Lock()
			continue
		}
		if s.host.arena.promised > 0 {
			grown := s.grown
			s.mu.Unlock()
			<-grown // its maker waits for nothing
			s.mu.Lock()
			continue
		}
		e := s.host.victim()
		if e == nil {
			return nil
		}
		s.evict(e)
	}
	return nil
}

// evict takes a page's host memory. A page that still waits to be written is
// lost for the disk as well: memory is short and the disk does not keep up.
func (s *Store) evict(e *entry) {
	if e.disk.queued {
		s.unqueue(e)
	}
	s.host.drop(e)
	s.count.evicted++
	s.forgetUnlessKept(e)
}

// forgetUnlessKept takes a page that is in no tier out of the index.
func (s *Store) forgetUnlessKept(e *entry) {
	if !e.gone && e.host.block == nil && !e.disk.on {
		s.index.remove(e)
	}
}

// growWhenLow keeps free frames at hand whose memory was touched already.
func (s *Store) growWhenLow() {
	for {
		select {
		case <-s.stopped.Done():
			return
		case <-s.low:
		}
		s.mu.Lock()
		frames := 0
		if s.host.arena.runningLow() {
			frames = s.host.arena.nextSlab()
		}
		s.mu.Unlock()
		if frames > 0 {
			s.addSlab(frames, true)
		}
	}
}

// addSlab maps a promised slab. Touching it first pays for its pages of memory
// here instead of in the copy that uses them.
func (s *Store) addSlab(frames int, touch bool) {
	slab, err := s.cfg.Memory.Map(frames * s.host.arena.frameBytes())
	if err == nil && touch {
		for i := 0; i < len(slab); i += 4096 {
			slab[i] = 0
		}
	}
	s.mu.Lock()
	if err == nil {
		s.host.arena.add(slab)
	} else {
		s.host.arena.abandon(frames)
	}
	close(s.grown)
	s.grown = make(chan struct{})
	s.mu.Unlock()
	if err != nil {
		s.cfg.OnError(fmt.Errorf("the host tier of context pages stays smaller: %w", err))
	}
}
