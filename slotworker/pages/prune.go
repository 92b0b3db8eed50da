package pages

import (
	"context"
	"errors"
	"fmt"
)

// Prune removes the pages from the directory that keep does not want, whoever
// wrote them, and those of older format versions. It returns how many went.
func (s *Store) Prune(ctx context.Context, keep func(Space) bool) (int, error) {
	if s.disk == nil {
		return 0, nil
	}
	var removed int
	done := make(chan error, 1)
	s.mu.Lock()
	s.do(func(ctx context.Context) (err error) {
		removed, err = s.prune(ctx, keep)
		done <- err
		return err
	})
	s.mu.Unlock()
	select {
	case err := <-done:
		return removed, err
	case <-ctx.Done():
		return 0, fmt.Errorf("cannot prune the context pages: %w", context.Cause(ctx))
	case <-s.stopped.Done():
		return 0, errors.New("cannot prune the context pages of a closed store")
	}
}

// prune is the writer's part of Prune.
func (s *Store) prune(ctx context.Context, keep func(Space) bool) (int, error) {
	pages, err := s.disk.list()
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, p := range pages {
		f, openErr := s.disk.openPage(opScan, p.name)
		unwanted := errors.Is(openErr, errOldVersion)
		if openErr == nil {
			unwanted = !keep(f.header.space)
			f.close()
		}
		if !unwanted {
			continue
		}
		if err = ignoreMissing(s.disk.ops.Remove(opEvict, s.disk.path(p.name))); err != nil {
			break
		}
		s.lost(p.name)
		removed++
	}
	return removed, errors.Join(err, s.disk.recount(ctx))
}
