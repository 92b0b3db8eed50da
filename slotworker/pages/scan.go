package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// scan makes the pages of the directory known, those used last first. It reads
// headers only: a payload is checked when it is first used.
func (s *Store) scan(pages []listed) {
	defer close(s.scanned)
	for _, p := range pages {
		if s.stopped.Err() != nil {
			return
		}
		f, err := s.disk.openPage(opScan, p.name)
		switch {
		case err == nil:
			f.close()
			s.offer(p, &f.header)
		case errors.Is(err, errDamaged):
			s.bad(p.name, ReasonChecksum)
		case errors.Is(err, errOldVersion):
			s.mu.Lock()
			s.firstToGo(p.name)
			s.mu.Unlock()
		case errors.Is(err, errVersion), errors.Is(err, fs.ErrNotExist):
		default:
			s.cfg.OnError(fmt.Errorf("cannot read a context page: %w", err))
		}
	}
}

// offer puts a page that was found on disk into the index, other slots' pages
// too: they never match, but let a miss say why.
func (s *Store) offer(p listed, h *header) {
	if why := s.contradicts(p, h); why != "" {
		s.bad(p.name, why)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byFile[p.name] != nil {
		return
	}
	e := s.index.find(h.space, h.link, h.index, h.tokens)
	if e == nil {
		e = s.index.insert(h.space, h.prev, h.link, h.index, h.tokens)
	}
	s.setDisk(e, p.bytes)
	e.disk.touched = p.used
}

// contradicts looks for what cannot be right about a file even before its
// payload is read.
func (s *Store) contradicts(p listed, h *header) Reason {
	switch {
	case h.name() != p.name:
		return ReasonTokenHash
	case h.fileBytes() != p.bytes:
		return ReasonChecksum
	case !s.own(h.space):
		return ""
	case !s.fits(h):
		return ReasonLayoutRevision
	case s.chain.link(h.prev, h.tokens) != h.link:
		return ReasonTokenHash
	}
	return ""
}

// fits reports whether a page has this store's form.
func (s *Store) fits(h *header) bool {
	return h.page == s.chain.page && h.shape == s.shape && h.payload == int64(len(h.tokens)*s.cell)
}

// firstToGo lets the size limit take a file before all others.
func (s *Store) firstToGo(n fileName) {
	s.do(func(context.Context) error { return s.disk.touch(n, time.Time{}) })
}

// Scanned is closed when the directory has been gone through once.
func (s *Store) Scanned() <-chan struct{} { return s.scanned }
