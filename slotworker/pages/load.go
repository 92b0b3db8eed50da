package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load brings the plan's further pages from disk into host memory, several at a
// time. It asks the directory also for pages that this store has not heard of:
// another one may have written them. The first page that is not there or not in
// order ends the run; damage is not an error but a miss. Load returns early, with
// what it has, when ctx ends.
func (s *Store) Load(ctx context.Context, p *Plan) {
	if !p.More || p.settled {
		return
	}
	before := min(p.covered(s.chain.page), p.Tokens)
	s.mu.Lock()
	if p.tail != nil {
		s.host.unpin(p.tail)
		p.tail = nil
	}
	s.mu.Unlock()
	p.failed = s.loadRun(ctx, p)
	if p.failed == "" && !s.chain.exact {
		p.failed = s.loadTail(ctx, p)
	}
	s.mu.Lock()
	s.settle(p)
	s.mu.Unlock()
	p.More = false
	p.DiskTokens = max(0, p.Tokens-before)
}

// fetched is what became of one page of a run.
type fetched struct {
	page *entry
	why  Reason
}

// loadRun extends the plan's run. Workers take the pages in order, so that they
// never read much beyond the end.
func (s *Store) loadRun(ctx context.Context, p *Plan) Reason {
	first, limit := len(p.run), s.index.fullPages(p.query.Prompt)
	if first == limit {
		return ""
	}
	var next, end atomic.Int64
	next.Store(int64(first))
	end.Store(int64(limit))
	results := make([]fetched, limit-first)
	var workers sync.WaitGroup
	for range min(s.cfg.Loaders, limit-first) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < end.Load(); i = next.Add(1) - 1 {
				e, why := s.fetch(ctx, wantFull(p.space, p.query.Prompt, int(i)))
				results[int(i)-first] = fetched{e, why}
				if e == nil {
					lower(&end, i)
				}
			}
		})
	}
	workers.Wait()
	stop := int(end.Load()) - first
	for _, r := range results[:stop] {
		p.run = append(p.run, r.page)
	}
	if stop == len(results) {
		return ""
	}
	s.mu.Lock()
	for _, r := range results[stop:] {
		if r.page != nil {
			s.host.unpin(r.page)
		}
	}
	s.mu.Unlock()
	return results[stop].why
}

func lower(v *atomic.Int64, to int64) {
	for old := v.Load(); to < old; old = v.Load() {
		if v.CompareAndSwap(old, to) {
			return
		}
	}
}

// loadTail finds the page after the plan's run: the prompt's own tail, or else
// the longest known one that the prompt goes on from.
func (s *Store) loadTail(ctx context.Context, p *Plan) (why Reason) {
	prompt, at := p.query.Prompt, len(p.run)
	rest := prompt.Len() - at*s.chain.page
	if rest == 0 {
		return ""
	}
	if rest < s.chain.page {
		if p.tail, why = s.fetch(ctx, wantTail(p.space, prompt, prompt.Len())); p.tail != nil {
			return ""
		}
	}
	s.mu.Lock()
	known := s.index.tailAfter(p.space, prompt, at)
	s.mu.Unlock()
	if known != nil && len(known.tokens) < rest {
		p.tail, _ = s.fetch(ctx, wantTail(p.space, prompt, at*s.chain.page+len(known.tokens)))
	}
	return why
}

// fetch gives a page, pinned, from host memory or from disk. Several callers
// that want the same one wait for the first. Without a page and without a reason
// it is for the index to say why.
func (s *Store) fetch(ctx context.Context, w want) (*entry, Reason) {
	name := w.name()
	for {
		s.mu.Lock()
		if e := s.index.find(w.space, w.link, w.index, w.tokens); e != nil && e.host.block != nil {
			s.host.pin(e)
			s.mu.Unlock()
			return e, ""
		}
		if s.closed || s.condemned[name] || ctx.Err() != nil {
			s.mu.Unlock()
			return nil, ""
		}
		other := s.loading[name]
		if other == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
	}
	done := make(chan struct{})
	s.loading[name] = done
	s.mu.Unlock()
	e, why := s.read(name, w)
	s.mu.Lock()
	delete(s.loading, name)
	s.mu.Unlock()
	close(done)
	return e, why
}

// read brings a page from disk into a block.
func (s *Store) read(name fileName, w want) (*entry, Reason) {
	f, err := s.disk.openPage(opRead, name)
	if err != nil {
		return nil, s.unread(name, err)
	}
	defer f.close()
	if why := s.mismatch(w, &f.header); why != "" {
		s.bad(name, why)
		return nil, why
	}
	b := s.room(len(w.tokens))
	if b == nil {
		s.cfg.OnError(errNoRoom)
		return nil, ""
	}
	err = f.read(b.mem)
	s.mu.Lock()
	if err != nil {
		s.host.unfill(b)
		s.mu.Unlock()
		return nil, s.unread(name, err)
	}
	defer s.mu.Unlock()
	e := s.keep(w, b)
	if e == nil { // saved meanwhile
		e = s.index.find(w.space, w.link, w.index, w.tokens)
		s.host.pin(e)
	}
	if !e.disk.on {
		s.setDisk(e, f.header.fileBytes())
		e.disk.touched = time.Time{}
	}
	return e, ""
}

// unread books a page that could not be read, and names the miss.
func (s *Store) unread(name fileName, err error) Reason {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errVersion):
		s.lost(name)
		return ""
	case errors.Is(err, errDamaged):
		s.bad(name, ReasonChecksum)
		return ReasonChecksum
	default:
		s.cfg.OnError(fmt.Errorf("cannot read a context page: %w", err))
		return ReasonChecksum
	}
}

// mismatch compares a file's header with the page that is wanted, field by field.
func (s *Store) mismatch(w want, h *header) Reason {
	if d := w.space.differs(h.space); len(d) > 0 {
		return d[0]
	}
	switch {
	case h.index != w.index:
		return ReasonPageIndex
	case h.link.hash != w.link.hash:
		return ReasonTokenHash
	case h.link != w.link || h.prev != w.prev || !slices.Equal(h.tokens, w.tokens):
		return ReasonTokenMismatch
	case !s.fits(h):
		return ReasonLayoutRevision
	}
	return ""
}
