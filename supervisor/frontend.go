package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// watchPace is the least time between two lists for one watcher. Changes in
// between show in the next list.
const watchPace = 20 * time.Millisecond

// loadPace is the least time between two looks of one watcher at the loads: each
// is a call to every worker, which would come with every request on its way.
const loadPace = 500 * time.Millisecond

// ListSlots gives all slots in declaration order. It waits for nobody, but for
// loadPatience for what the workers say of their load.
func (s *Supervisor) ListSlots(ctx context.Context) (shared.SlotList, error) { return s.list(ctx), nil }

func (s *Supervisor) list(ctx context.Context) shared.SlotList {
	s.registry.current.Load().lookAtLoads(ctx)
	return s.listSeen()
}

// listSeen is the list with the loads of the latest look at them.
func (s *Supervisor) listSeen() shared.SlotList {
	snap := s.registry.current.Load()
	l := shared.SlotList{Slots: make([]shared.SlotInfo, len(snap.slots)), Aliases: snap.aliasList()}
	for i, d := range snap.slots {
		l.Slots[i] = d.slot.info()
	}
	l.Budgets = s.accountant.budgets()
	return l
}

// WatchSlots calls changed with the whole list at once and after each change,
// until ctx ends, the supervisor ends or changed fails. A slow watcher misses
// states in between, never the last one. Loads are at most loadPace old.
func (s *Supervisor) WatchSlots(ctx context.Context, changed func(shared.SlotList) error) error {
	news, unsubscribe := s.watchers.subscribe()
	defer unsubscribe()
	var looked time.Time
	var due <-chan time.Time // when the loads of the latest list are too old
	for {
		if age := time.Since(looked); age >= loadPace {
			s.registry.current.Load().lookAtLoads(ctx)
			looked, due = time.Now(), nil
		} else if due == nil {
			due = time.After(loadPace - age)
		}
		if err := changed(s.listSeen()); err != nil {
			return err
		}
		err := s.pause(ctx, time.After(watchPace), nil)
		if err == nil {
			err = s.pause(ctx, due, news)
		}
		if err != nil {
			return shared.AsError(err, "watch", "")
		}
	}
}

// pause waits for either channel, and fails when the watch has to end.
func (s *Supervisor) pause(ctx context.Context, pace <-chan time.Time, news <-chan struct{}) error {
	select {
	case <-pace:
	case <-news:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return shuttingDown()
	}
	return nil
}

// Resolve finds the one identity that a requirement means, waiting for
// identities that are still being read.
func (s *Supervisor) Resolve(ctx context.Context, req shared.Requirement) (shared.Resolution, error) {
	t, err := s.find(ctx, req, shared.OnMissWait, nil)
	if err != nil {
		return shared.Resolution{}, shared.AsError(err, "resolve", "")
	}
	res := shared.Resolution{Identity: t.identity, Model: t.model}
	if g := s.registry.current.Load().route(t.identity); g != nil { // unless replaced meanwhile
		t.slots = g.slots
	}
	for _, sl := range t.slots {
		res.SlotIDs = append(res.SlotIDs, sl.spec.SlotID)
	}
	return res, nil
}

// Prepare makes a slot resident and returns when it is. When ctx ends first and
// nobody else wants the slot, the preparation is undone.
func (s *Supervisor) Prepare(ctx context.Context, slotID string, progress func(shared.Progress)) (shared.SlotInfo, error) {
	var one sync.Mutex // replicas make progress at the same time
	return s.operate("prepare", slotID, func(sl *slot) error {
		s.declareAgain(sl)
		return sl.prepare(ctx, func(p shared.Progress) error {
			if progress != nil {
				one.Lock()
				defer one.Unlock()
				progress(p)
			}
			return nil
		})
	})
}

// Evict frees a slot's device buffers, and its host buffer with dropHost. It
// waits for running requests, and cancels them after the drain timeout. When
// ctx ends first, the eviction goes on.
func (s *Supervisor) Evict(ctx context.Context, slotID string, dropHost bool) (shared.SlotInfo, error) {
	return s.operate("evict", slotID, func(sl *slot) error { return sl.evict(ctx, dropHost) })
}

// Restart kills a slot's worker and starts another at once, whatever state the
// slot is in. It returns when the new one answers; a slot that was resident is
// then prepared again in the background.
func (s *Supervisor) Restart(ctx context.Context, slotID string) (shared.SlotInfo, error) {
	return s.operate("restart", slotID, func(sl *slot) error {
		s.declareAgain(sl)
		return sl.restart(ctx)
	})
}

// operate runs one operation on the slots of a name, on replicas at the same
// time. It gives the first of them, or the first that failed. When a reload takes
// one out of service meanwhile, the operation is for what is in its place.
func (s *Supervisor) operate(op, name string, f func(*slot) error) (shared.SlotInfo, error) {
	for {
		snap := s.registry.current.Load()
		indexes, err := snap.slotsNamed(op, name)
		if err != nil {
			return shared.SlotInfo{}, err
		}
		errs := make([]error, len(indexes))
		var all sync.WaitGroup
		for n, index := range indexes {
			all.Go(func() { errs[n] = f(snap.slots[index].slot) })
		}
		all.Wait()
		replaced := false
		for n, index := range indexes {
			sl := snap.slots[index].slot
			if errs[n] != nil && !sl.leftBehind(errs[n]) {
				return sl.info(), shared.AsError(errs[n], op, sl.spec.SlotID)
			}
			replaced = replaced || errs[n] != nil
		}
		if !replaced {
			return snap.slots[indexes[0]].slot.info(), nil
		}
	}
}

// Tokenize turns text into token ids with the tokenizer of the slot that the
// requirement means.
func (s *Supervisor) Tokenize(ctx context.Context, req shared.TokenizeRequest) ([]int32, error) {
	var tokens []int32
	r := &request{op: "tokenize", requirement: req.Requirement, identity: req.Identity}
	err := s.serve(ctx, r, func(l *lease) error {
		req.Identity = r.target.identity
		var err error
		tokens, err = l.worker.Tokenize(l.ctx, req)
		return err
	})
	return tokens, err
}

// ApplyTemplate renders a chat with the template of the model that the
// requirement means.
func (s *Supervisor) ApplyTemplate(ctx context.Context, req shared.ApplyTemplateRequest) (string, error) {
	var prompt string
	r := &request{op: "apply template", requirement: req.Requirement, identity: req.Identity}
	err := s.serve(ctx, r, func(l *lease) error {
		req.Identity = r.target.identity
		var err error
		prompt, err = l.worker.ApplyTemplate(l.ctx, req)
		return err
	})
	return prompt, err
}
