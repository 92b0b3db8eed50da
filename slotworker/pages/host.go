package pages

// hostState is what an entry knows of its copy in host memory.
type hostState struct {
	block   *block // nil when there is none
	pins    int    // plans and saves that use it
	writing bool   // the writer reads it
	dead    bool   // to be freed once nobody uses it; the index has lost it
	older   *entry
	newer   *entry
}

// hostTier is the pages in host memory. A pinned page stands outside the list of
// what may be evicted; the others are in order of their last use. The store's
// mutex guards it.
type hostTier struct {
	arena   *arena
	oldest  *entry
	newest  *entry
	pages   int
	payload int64
	filling int // blocks taken but not yet a page
	pinned  int // pages
}

// fill takes a block for a page in the making; nil when there is no free room.
func (h *hostTier) fill(cells int) *block {
	b := h.arena.take(cells)
	if b != nil {
		h.filling++
	}
	return b
}

// unfill gives such a block back unused.
func (h *hostTier) unfill(b *block) {
	h.filling--
	h.arena.give(b)
}

// put makes a filled block the entry's copy, which is then pinned once.
func (h *hostTier) put(e *entry, b *block) {
	h.filling--
	h.pages++
	h.pinned++
	h.payload += int64(len(b.mem))
	e.host = hostState{block: b, pins: 1}
}

// pin keeps a copy until unpin.
func (h *hostTier) pin(e *entry) {
	if e.host.pins == 0 {
		h.unlink(e)
		h.pinned++
	}
	e.host.pins++
}

// unpin makes the copy the last used one when nobody else has it.
func (h *hostTier) unpin(e *entry) {
	e.host.pins--
	if e.host.pins > 0 {
		return
	}
	h.pinned--
	if e.host.dead {
		h.freeDead(e)
		return
	}
	e.host.older = h.newest
	if h.newest != nil {
		h.newest.host.newer = e
	} else {
		h.oldest = e
	}
	h.newest = e
}

// written ends the writer's use of a copy.
func (h *hostTier) written(e *entry) {
	e.host.writing = false
	if e.host.dead {
		h.freeDead(e)
	}
}

// victim is the copy that was not used for the longest time.
func (h *hostTier) victim() *entry {
	for e := h.oldest; e != nil; e = e.host.newer {
		if !e.host.writing {
			return e
		}
	}
	return nil
}

// drop frees an entry's copy, at once or when its users are done.
func (h *hostTier) drop(e *entry) {
	if e.host.pins == 0 {
		h.unlink(e)
	}
	e.host.dead = true
	h.freeDead(e)
}

func (h *hostTier) freeDead(e *entry) {
	if e.host.pins > 0 || e.host.writing {
		return
	}
	h.pages--
	h.payload -= int64(len(e.host.block.mem))
	h.arena.give(e.host.block)
	e.host = hostState{}
}

func (h *hostTier) unlink(e *entry) {
	if e.host.older != nil {
		e.host.older.host.newer = e.host.newer
	} else {
		h.oldest = e.host.newer
	}
	if e.host.newer != nil {
		e.host.newer.host.older = e.host.older
	} else {
		h.newest = e.host.older
	}
	e.host.older, e.host.newer = nil, nil
}
