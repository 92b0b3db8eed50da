package pages

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// chore is something the writer does to the directory besides storing pages.
type chore func(ctx context.Context) error

// touchEvery is how old the mark of a page's last use may get on disk.
const touchEvery = time.Minute

// writeBehind is the writer: it makes all changes of the directory, one after
// another, chores before pages and pages in the order in which they were stored.
func (s *Store) writeBehind() {
	if pages, err := s.disk.open(s.stopped); err != nil {
		s.cfg.OnError(fmt.Errorf("cannot open the disk tier of context pages: %w", err))
		close(s.scanned) // after it was told, for those who wait to hear
	} else {
		s.group.Go(func() { s.scan(pages) })
	}
	var resume time.Time // nothing is written before, since a write failed
	for {
		do, e := s.nextJob()
		switch {
		case do != nil:
			if err := do(s.stopped); err != nil {
				s.cfg.OnError(err)
			}
		case e != nil && time.Now().Before(resume):
			s.wrote(e, 0, nil, errPaused)
		case e != nil:
			h := s.headerOf(e)
			bytes, removed, err := s.disk.write(s.stopped, &h, e.host.block.mem)
			s.wrote(e, bytes, removed, err)
			if err != nil {
				resume = time.Now().Add(s.cfg.RetryAfter)
				s.cfg.OnError(fmt.Errorf("cannot store a context page on disk: %w", err))
			}
		default:
			select {
			case <-s.stopped.Done():
				return
			case <-s.wake:
			}
		}
	}
}

// errPaused stands for a write that was not tried.
var errPaused = errors.New("writing is paused")

// nextJob takes the writer's next job. There is none once the store stops.
func (s *Store) nextJob() (chore, *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = s.stopped.Err() == nil
	if s.busy && len(s.chores) > 0 {
		do := s.chores[0]
		s.chores = s.chores[1:]
		return do, nil
	}
	for s.busy && len(s.queue) > 0 {
		e := s.queue[0]
		s.queue = s.queue[1:]
		if e.disk.queued {
			s.takeOffQueue(e)
			e.host.writing = true
			return nil, e
		}
	}
	s.busy = false
	for _, done := range s.idle {
		close(done)
	}
	s.idle = nil
	return nil, nil
}

// wrote books what became of a page that nextJob gave.
func (s *Store) wrote(e *entry, bytes int64, removed []fileName, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host.written(e)
	for _, n := range removed {
		if old := s.byFile[n]; old != nil {
			s.clearDisk(old)
		}
	}
	switch {
	case errors.Is(err, errPaused):
		s.count.dropped++
	case err != nil:
		s.count.writeErrors++
	case e.gone: // poisoned meanwhile
		s.discard(nameOf(e.space.Space, e.index, e.link.hash), ReasonRestoreShort)
	default:
		s.count.written++
		s.setDisk(e, bytes)
	}
}

// enqueue lets a page be written. When the queue is full its oldest page is not.
func (s *Store) enqueue(e *entry) {
	if s.disk == nil || e.disk.on || e.disk.queued || e.host.writing {
		return
	}
	for s.count.queued >= s.cfg.QueuePages {
		old := s.queue[0]
		s.queue = s.queue[1:]
		if old.disk.queued {
			s.unqueue(old)
		}
	}
	e.disk.queued = true
	s.queue = append(s.queue, e)
	s.count.queued++
	s.count.queuedBytes += int64(len(e.host.block.mem))
	notify(s.wake)
}

// unqueue gives up writing a page.
func (s *Store) unqueue(e *entry) {
	s.takeOffQueue(e)
	s.count.dropped++
}

func (s *Store) takeOffQueue(e *entry) {
	e.disk.queued = false
	s.count.queued--
	s.count.queuedBytes -= int64(len(e.host.block.mem))
}

func (s *Store) do(c chore) {
	s.chores = append(s.chores, c)
	notify(s.wake)
}

// discard has a bad file set aside. Until that is done nobody reads it.
func (s *Store) discard(n fileName, why Reason) {
	if s.condemned[n] {
		return
	}
	s.condemned[n] = true
	s.count.rejected[why]++
	s.do(func(ctx context.Context) error {
		if err := s.disk.setAside(ctx, n, why); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.condemned, n)
		s.mu.Unlock()
		return nil
	})
}

// bad takes a page whose file is bad out of the disk tier.
func (s *Store) bad(n fileName, why Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byFile[n]; e != nil {
		s.clearDisk(e)
	}
	s.discard(n, why)
}

// lost books that a file is no longer there.
func (s *Store) lost(n fileName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byFile[n]; e != nil {
		s.clearDisk(e)
	}
}

// setDisk books that a page is on disk.
func (s *Store) setDisk(e *entry, bytes int64) {
	if e.disk.on {
		return
	}
	if e.disk.queued {
		s.takeOffQueue(e)
	}
	e.disk = diskState{on: true, bytes: bytes, touched: time.Now()}
	s.byFile[nameOf(e.space.Space, e.index, e.link.hash)] = e
	if s.own(e.space.Space) {
		s.count.disk.Pages++
		s.count.disk.Bytes += bytes
	}
}

// clearDisk books that a page is no longer on disk.
func (s *Store) clearDisk(e *entry) {
	if s.own(e.space.Space) {
		s.count.disk.Pages--
		s.count.disk.Bytes -= e.disk.bytes
	}
	delete(s.byFile, nameOf(e.space.Space, e.index, e.link.hash))
	e.disk = diskState{}
	s.forgetUnlessKept(e)
}

func (s *Store) headerOf(e *entry) header {
	return header{
		space:   e.space.Space,
		index:   e.index,
		page:    s.chain.page,
		prev:    e.prev,
		link:    e.link,
		tokens:  e.tokens,
		shape:   s.shape,
		payload: int64(len(e.host.block.mem)),
	}
}
