package slotworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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

// space is the salt that pages are kept under. Pages that were computed in
// chunks of any size, or while decoding, are not those that an exact slot may
// use, so the two never meet, not even in one directory.
func (c pagesConfig) space() string {
	if !c.exact {
		return c.salt
	}
	return shared.HashFields("firstframe/context-page/exact/v1", c.salt)
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
	layout, err := pages.Prove(s.probe())
	if err != nil {
		s.cfg.logger.Warn("no context pages are kept", "error", err)
		s.store = pages.Disabled(cfg.page, err.Error())
		return nil
	}
	s.store, err = pages.Open(pages.Config{
		Identity:   cfg.identity,
		PageTokens: cfg.page,
		Layout:     layout,
		HostBytes:  cfg.host,
		Dir:        cfg.dir,
		DiskBytes:  cfg.disk,
		OnError:    func(err error) { s.cfg.logger.Warn("context pages", "error", err) },
	})
	if err != nil {
		return &shared.Error{Kind: shared.KindInvalid, Field: "pages", Message: err.Error(), Err: err}
	}
	return nil
}

// probe runs the proof on the first two sequences, or on the only one.
func (s *scheduler) probe() pages.Probe {
	token := func(i int) int32 { return s.cfg.warmup[i%len(s.cfg.warmup)] }
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
	return pages.Query{Prompt: r.pages, Salt: s.cfg.pages.space(), Exact: s.cfg.pages.exact}
}

// fetchPages brings what the disk has of a prompt into memory before the request
// queues, so that the scheduler never waits for the disk.
func (s *scheduler) fetchPages(ctx context.Context, r *request) {
	r.pages = s.store.NewPrompt(r.prompt)
	r.plan = s.store.Lookup(s.query(r))
	if !r.plan.More {
		s.dropPlan(r) // what is in memory is looked up when the request's turn comes
		return
	}
	s.store.Load(ctx, r.plan) // the plan now holds what was there, or knows why it was not
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

// next takes the request that is to run next off the queue, with its pages.
// Requests whose prompt an earlier one is computing are set aside for its pages.
func (s *scheduler) next() (*request, *pages.Plan) {
	for len(s.waiting) > 0 {
		r := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		if r.pages == nil {
			return r, nil
		}
		plan := s.lookUp(r)
		if s.store.Off() != "" || !s.turn(r, plan).Wait {
			return r, plan
		}
		s.store.Release(plan, pages.Unused)
		s.following = append(s.following, r)
	}
	return nil, nil
}

func (s *scheduler) turn(r *request, plan *pages.Plan) pages.Turn {
	covered := plan.Tokens
	if plan.Reason == "" {
		covered = len(r.prompt) // nothing that somebody else computes could add to it
	}
	if r.id != 0 {
		return s.flights.Again(r.id, covered)
	}
	s.lastID++
	r.id = s.lastID
	return s.flights.Join(r.id, r.pages, s.cfg.pages.space(), covered)
}

// land takes a request that no longer prefills out of the flights.
func (s *scheduler) land(r *request) {
	if r.id == 0 {
		return
	}
	s.resume(s.flights.Leave(r.id))
	r.id = 0
}

// resume puts requests whose wait is over in front of those that were not looked
// at yet, in order of arrival.
func (s *scheduler) resume(ids []pages.RequestID) {
	if len(ids) == 0 {
		return
	}
	var ready []*request
	s.following = slices.DeleteFunc(s.following, func(r *request) bool {
		over := slices.Contains(ids, r.id)
		if over {
			ready = append(ready, r)
		}
		return over
	})
	s.waiting = append(ready, s.waiting...)
	slices.SortStableFunc(s.waiting, func(a, b *request) int {
		return cmp.Compare(a.id-1, b.id-1) // those without an id last: it wraps around
	})
}

// restore brings a plan's pages into a sequence. A request whose pages cannot be
// restored computes its whole prompt.
func (s *scheduler) restore(seq *sequence, plan *pages.Plan) error {
	if plan == nil {
		return nil
	}
	r := seq.req
	r.missReason, r.divergedAt = string(plan.Reason.Public()), max(0, plan.DivergedAt)
	outcome := pages.Used
	if plan.Tokens > 0 {
		if err := s.join(seq.id, plan); err != nil {
			s.cfg.logger.Error("context pages were not restored", "sequence", seq.id, "tokens", plan.Tokens, "error", err)
			outcome = pages.Short
			r.missReason, r.divergedAt = string(pages.ReasonRestoreShort), 0
		} else {
			r.cached, seq.filled = plan.Tokens, plan.Tokens
			s.kvTokens.Add(int64(plan.Tokens))
		}
	}
	s.store.Release(plan, outcome)
	if outcome == pages.Short && (!s.engine.SeqRemove(seq.id, 0, -1) || s.engine.SeqTokens(seq.id) != 0) {
		return shared.Errorf(shared.KindEngine, "sequence %d could not be cleared after a failed restore", seq.id)
	}
	return nil
}

func (s *scheduler) join(seq int32, plan *pages.Plan) error {
	blob, err := s.store.Layout().Join(s.blob, int(seq), plan.Pieces())
	if err != nil {
		return err
	}
	s.blob = blob
	if read := s.engine.StateSet(seq, blob); read != len(blob) {
		return fmt.Errorf("the engine took %d of %d bytes", read, len(blob))
	}
	if n := s.engine.SeqTokens(seq); n != plan.Tokens {
		return fmt.Errorf("the engine counts %d tokens instead of %d", n, plan.Tokens)
	}
	return nil
}

// keep stores the pages of a sequence that are not stored yet. The state is read
// whole, which costs about a thousandth of computing it, and only when there is
// something to keep.
func (s *scheduler) keep(seq *sequence) {
	r := seq.req
	if r.pages == nil || s.store.Off() != "" {
		return
	}
	cells, tail := seq.filled, !seq.prefilling()
	if s.cfg.pages.exact {
		// What decoding computed, and tails, are other numbers than a prefill's.
		cells, tail = min(cells, len(r.prompt))/s.cfg.pages.page*s.cfg.pages.page, false
	}
	salt := s.cfg.pages.space()
	if cells == 0 || s.store.Unsaved(r.pages, salt, cells, tail) == 0 {
		s.stored(seq, cells, tail)
		return
	}
	if err := s.cut(seq, cells, tail); err != nil {
		s.cfg.logger.Error("context pages were not kept", "sequence", seq.id, "tokens", cells, "error", err)
		return
	}
	if s.store.Unsaved(r.pages, salt, cells, tail) == 0 {
		s.stored(seq, cells, tail)
	}
}

// stored lets those go on who waited for this much of the sequence.
func (s *scheduler) stored(seq *sequence, cells int, tail bool) {
	if seq.req.id == 0 {
		return
	}
	if !tail {
		cells = cells / s.cfg.pages.page * s.cfg.pages.page
	}
	s.resume(s.flights.Stored(seq.req.id, cells))
}

func (s *scheduler) cut(seq *sequence, cells int, tail bool) error {
	size := s.engine.StateSize(seq.id)
	if cap(s.blob) < size {
		s.blob = make([]byte, size)
	}
	s.blob = s.blob[:size]
	if wrote := s.engine.StateGet(seq.id, s.blob); wrote != size {
		return fmt.Errorf("the engine wrote %d of %d bytes", wrote, size)
	}
	state, err := pages.ParseState(s.blob)
	if err != nil {
		return err
	}
	if state.Cells != seq.filled || state.Sequence != int(seq.id) {
		return fmt.Errorf("the state is of sequence %d with %d tokens instead of %d", state.Sequence, state.Cells, seq.filled)
	}
	state.Cells = cells
	_, err = s.store.Save(pages.Save{Prompt: seq.req.pages, Salt: s.cfg.pages.space(), State: state, Tail: tail})
	return err
}

// pageStats is the account of pages for Status.
func (s *scheduler) pageStats() shared.PageStats {
	st := s.store.Stats()
	used, _ := s.kvUse()
	p := shared.PageStats{
		Off:              st.Off,
		Host:             shared.PageTier{Pages: st.Host.Pages, Bytes: st.Host.Bytes},
		Disk:             shared.PageTier{Pages: st.Disk.Pages, Bytes: st.Disk.Bytes},
		HitHostTokens:    st.HitHostTokens,
		HitDiskTokens:    st.HitDiskTokens,
		RecomputedTokens: st.RecomputedTokens,
		PrefilledTokens:  s.prefilled.Load(),
	}
	if st.Off == "" {
		p.Device = shared.PageTier{Pages: int(used) / s.cfg.pages.page, Bytes: used * int64(s.store.Layout().CellBytes())}
	}
	for reason, n := range st.MissTokens {
		if p.MissTokens == nil {
			p.MissTokens = map[string]int64{}
		}
		p.MissTokens[string(reason)] = n
	}
	return p
}
