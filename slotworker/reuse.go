package slotworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// pagesConfig says which context pages a scheduler keeps; without a page size
// it keeps none.
type pagesConfig struct {
	identity shared.Identity
	page     int // tokens
	exact    bool
	salt     string
	host     int64 // bytes
	disk     int64 // bytes, 0 without a disk tier
	dir      string
}

// chunkPage is the page size that prefill chunks keep to; 0 when they need not.
func (c pagesConfig) chunkPage() int {
	if c.exact {
		return c.page
	}
	return 0
}

// unpageable says why a model's memory cannot be cut at a page; empty when it can.
func unpageable(m ModelInfo) string {
	switch {
	case m.Recurrent:
		return fmt.Sprintf("the memory of the recurrent architecture %s cannot be cut at a page", m.Architecture)
	case m.Hybrid:
		return fmt.Sprintf("the memory of the hybrid architecture %s cannot be cut at a page", m.Architecture)
	case m.SWA > 0:
		return fmt.Sprintf("the architecture %s attends through a sliding window of %d tokens and forgets what lies before it", m.Architecture, m.SWA)
	default:
		return ""
	}
}

// openPages proves that states can be cut and joined, and opens the store. When
// they cannot, the scheduler works without pages and says why.
func (s *scheduler) openPages() error {
	cfg := s.cfg.pages
	if cfg.page == 0 {
		s.store = pages.Disabled(1, "none were asked for")
		return nil
	}
	s.flights = pages.NewInflight(cfg.page, !cfg.exact)
	if why := unpageable(s.cfg.model.Info()); why != "" {
		s.store = pages.Disabled(cfg.page, why)
		return nil
	}
	layout, err := s.cfg.kept.prove(cfg, s.cfg.context, s.probe())
	if err != nil {
		s.cfg.logger.Warn("no context pages are kept", "error", err)
		s.store = pages.Disabled(cfg.page, err.Error())
		return nil
	}
	s.layout = layout
	s.store, err = s.cfg.kept.use(cfg, layout, func(err error) { s.cfg.logger.Warn("context pages", "error", err) })
	return err
}

// probe runs the proof on the first two sequences, or on the only one.
func (s *scheduler) probe() pages.Probe {
	token := func(i int) int32 { return s.cfg.sample[i%len(s.cfg.sample)] }
	return pages.Probe{
		IO:   s.engine,
		From: 0,
		To:   int32(min(1, s.cfg.context.Sequences-1)),
		Fill: func(seq int32, n int) error {
			if n >= s.cfg.context.TokensPerSequence {
				return fmt.Errorf("a sequence of %d tokens has no room for %d", s.cfg.context.TokensPerSequence, n)
			}
			for from := 0; from < n; from += s.cfg.chunk {
				var rows []Row
				for i := from; i < min(from+s.cfg.chunk, n); i++ {
					rows = append(rows, Row{Token: token(i), Pos: int32(i), Seq: seq})
				}
				if err := s.engine.Decode(rows); err != nil {
					return err
				}
				s.cfg.progress.Add(1)
			}
			return nil
		},
		Next: func(seq int32, pos int) ([]float32, error) {
			if err := s.engine.Decode([]Row{{Token: token(0), Pos: int32(pos), Seq: seq, Logits: true}}); err != nil {
				return nil, err
			}
			s.cfg.progress.Add(1)
			logits := s.engine.Logits(0)
			if logits == nil {
				return nil, errors.New("there are no logits")
			}
			return logits, nil
		},
	}
}

func (s *scheduler) query(r *request) pages.Query {
	return pages.Query{Prompt: r.pages, Salt: s.cfg.pages.salt}
}

// fetchPages brings what the disk has of a prompt into memory before the request
// queues, so that the scheduler never waits for the disk.
func (s *scheduler) fetchPages(ctx context.Context, r *request) {
	r.pages = s.store.NewPrompt(r.prompt)
	if len(r.prompt) > s.cfg.pages.page {
		s.awaitScan(ctx)
	}
	r.plan = s.store.Lookup(s.query(r))
	if !r.plan.More {
		s.dropPlan(r) // what is in memory is looked up when the request's turn comes
		return
	}
	s.store.Load(ctx, r.plan) // the plan now holds what was there, or knows why it was not
}

// scanPatience bounds how long the first requests of a process wait to hear what
// the folder of its pages holds. Pages that were used last are known first.
const scanPatience = 500 * time.Millisecond

func (s *scheduler) awaitScan(ctx context.Context) {
	select {
	case <-s.store.Scanned():
		return
	default:
	}
	patience := time.NewTimer(scanPatience)
	defer patience.Stop()
	select {
	case <-s.store.Scanned():
	case <-patience.C:
	case <-ctx.Done():
	}
}

func (s *scheduler) dropPlan(r *request) {
	if r.plan != nil {
		s.store.Release(r.plan, pages.Unused)
		r.plan = nil
	}
}

// lookUp finds the pages of a request. Pages that were brought in from disk
// before the request queued are held by its plan; others may have been computed
// since, and the better of the two is taken.
func (s *scheduler) lookUp(r *request) *pages.Plan {
	plan, early := s.store.Lookup(s.query(r)), r.plan
	r.plan = nil
	switch {
	case early == nil:
		return plan
	case plan.Tokens > early.Tokens:
		plan.DiskTokens = early.DiskTokens
		s.store.Release(early, pages.Unused)
		return plan
	default:
		s.store.Release(plan, pages.Unused)
		return early
	}
}
