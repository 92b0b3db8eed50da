package slotworker

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// keptPages keeps the store of context pages while device buffers come and go:
// what an eviction moves down is there for the next activation. Whoever holds
// the order that the owner has let in, activation or eviction, may change it.
type keptPages struct {
	store     atomic.Pointer[pages.Store] // nil when there is none
	prefilled atomic.Int64                // prompt tokens computed since it was opened
	cfg       pagesConfig                 // of the store
	memory    pages.Memory                // nil means the system's
	proven    provenLayout
}

// provenLayout is a layout that this process has proved, and for what. The same library
// with the same model and settings lays states out in the same way, so that one
// proof holds for the life of the process.
type provenLayout struct {
	cfg     pagesConfig
	context ContextConfig
	layout  pages.Layout
}

// prove gives the layout of the states of a context.
func (k *keptPages) prove(cfg pagesConfig, context ContextConfig, probe pages.Probe) (pages.Layout, error) {
	if k.proven.cfg == cfg && k.proven.context == context {
		return k.proven.layout, nil
	}
	layout, err := pages.Prove(probe)
	if err == nil {
		k.proven = provenLayout{cfg, context, layout}
	}
	return layout, err
}

// use gives a store for pages of a proven layout: the one that is kept, when it
// is for the same pages, and a new one otherwise.
func (k *keptPages) use(cfg pagesConfig, layout pages.Layout, onError func(error)) (*pages.Store, error) {
	if s := k.store.Load(); s != nil {
		if k.cfg == cfg && s.Fits(layout) {
			return s, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), pagesWait)
		defer cancel()
		if err := k.close(ctx); err != nil {
			onError(err)
		}
	}
	s, err := pages.Open(pages.Config{
		Identity:   cfg.identity,
		PageTokens: cfg.page,
		Exact:      cfg.exact,
		Layout:     layout,
		HostBytes:  cfg.host,
		Dir:        cfg.dir,
		DiskBytes:  cfg.disk,
		OnError:    onError,
		Memory:     k.memory,
	})
	if err != nil {
		return nil, &shared.Error{Kind: shared.KindInvalid, Field: "pages", Message: err.Error(), Err: err}
	}
	k.cfg = cfg
	k.prefilled.Store(0)
	k.store.Store(s)
	return s, nil
}

// close writes what is queued for the disk, until ctx ends, and gives the memory
// back.
func (k *keptPages) close(ctx context.Context) error {
	s := k.store.Swap(nil)
	if s == nil {
		return nil
	}
	if err := s.Close(ctx); err != nil {
		return fmt.Errorf("context pages were not closed cleanly: %w", err)
	}
	return nil
}

// stats is what Status says of pages while nothing is on the device.
func (k *keptPages) stats() shared.PageStats {
	s := k.store.Load()
	if s == nil {
		return shared.PageStats{}
	}
	p := storeStats(s)
	p.PrefilledTokens = k.prefilled.Load()
	return p
}

// storeStats is the part of the account that the store knows.
func storeStats(s *pages.Store) shared.PageStats {
	st := s.Stats()
	p := shared.PageStats{
		Off:              st.Off,
		Host:             shared.PageTier{Pages: st.Host.Pages, Bytes: st.Host.Bytes},
		Disk:             shared.PageTier{Pages: st.Disk.Pages, Bytes: st.Disk.Bytes},
		HitDeviceTokens:  st.HitDeviceTokens,
		HitHostTokens:    st.HitHostTokens,
		HitDiskTokens:    st.HitDiskTokens,
		RecomputedTokens: st.RecomputedTokens,
	}
	for reason, n := range st.MissTokens {
		if p.MissTokens == nil {
			p.MissTokens = map[string]int64{}
		}
		p.MissTokens[string(reason)] = n
	}
	return p
}
