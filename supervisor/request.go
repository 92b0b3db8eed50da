package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// exitWait is how long a request that lost its worker waits to hear how the
// process ended.
const exitWait = 2 * time.Second

// request is one request on its way: resolve, route, lease, use, release.
type request struct {
	op          string
	requirement shared.Requirement
	identity    shared.Identity // what the caller had resolved before, if anything
	onMiss      shared.OnMiss
	deadline    time.Duration
	// progress gets news of what the request waits for; its error ends it.
	progress func(slotID string, p shared.Progress) error
	// started reports whether the client has got a part of the answer.
	started func() bool
	// prompt is what a replica may have context pages of; nil when nothing is computed.
	prompt *shared.GenerateRequest

	marks  []uint64 // of the prompt's beginnings
	target target
	phases shared.Phases // of this process
	detail shared.ActivationDetail
	hit    bool
}

// serve takes a request along its path. use runs with a lease, once, or twice
// when the worker is lost before the client has got anything.
func (s *Supervisor) serve(ctx context.Context, r *request, use func(*lease) error) error {
	arrived := time.Now()
	deadline := r.deadline
	if deadline == 0 {
		deadline = s.cfg.DefaultDeadline
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(caller, deadline)
	defer cancel()

	err := s.resolve(ctx, r)
	found := time.Now()
	r.phases.Route = found.Sub(arrived)
	if err == nil {
		if own := r.target.slots[0].spec.Deadline; r.deadline == 0 && own > 0 {
			var cancelOwn context.CancelFunc
			ctx, cancelOwn = context.WithDeadline(caller, arrived.Add(own))
			defer cancelOwn()
		}
		err = s.attempt(ctx, r, found, use)
	}
	return ending(ctx, r, err)
}

// attempt runs a request on a slot. As long as the client has got nothing, it is
// run again: once when its worker was lost, and whenever a reload took the slot
// out of service, on what has taken its place.
func (s *Supervisor) attempt(ctx context.Context, r *request, since time.Time, use func(*lease) error) error {
	var avoid *slot
	var first error
	for {
		sl, lost, err := s.run(ctx, r, since, avoid, use)
		begun := r.started != nil && r.started()
		switch {
		case err == nil:
			return nil
		case sl.leftBehind(err) && begun:
			return cutOff(r.op, sl)
		case (sl.leftBehind(err) || lost && sl.retired.Load()) && !begun:
			if err := s.resolve(ctx, r); err != nil {
				return err
			}
			avoid = nil
		case lost && avoid == nil && !begun:
			avoid, first = sl, err
		case first != nil && shared.KindOf(err) == shared.KindNotResident:
			return first
		default:
			return err
		}
	}
}

// resolve finds what the request means.
func (s *Supervisor) resolve(ctx context.Context, r *request) error {
	t, err := s.find(ctx, r.requirement, r.onMiss, r.progress)
	if err != nil {
		return err
	}
	if r.identity != (shared.Identity{}) && !r.identity.Matches(t.identity) {
		return &shared.Error{
			Kind:    shared.KindIdentity,
			Field:   r.identity.Differs(t.identity)[0],
			Message: "the request was made for " + r.identity.String() + ", the slot has " + t.identity.String(),
		}
	}
	r.target = t
	return nil
}

// run takes a lease on one of the slots and uses it, and reports whether the
// worker was lost meanwhile. since is when the wait for the lease began: with a second run, the
// time that the first one lost belongs to that wait.
func (s *Supervisor) run(ctx context.Context, r *request, since time.Time, avoid *slot, use func(*lease) error) (sl *slot, lost bool, err error) {
	var preferred *slot
	if len(r.target.slots) > 1 && r.prompt != nil {
		if r.marks == nil {
			r.marks = s.affinity.marks(r.target.identity, *r.prompt)
		}
		preferred = s.affinity.longest(r.marks)
	}
	sl = choose(r.target.slots, avoid, preferred)
	l, err := sl.acquire(ctx, r.onMiss, func(p shared.Progress) error {
		if r.progress == nil {
			return nil
		}
		return r.progress(sl.spec.SlotID, p)
	})
	waited := time.Since(since)
	if err != nil {
		return sl, false, shared.AsError(err, r.op, sl.spec.SlotID)
	}
	defer l.release()
	if len(r.marks) > 0 {
		s.affinity.served(r.marks, sl)
	}
	r.phases.Queue, r.phases.SlotActivation, r.detail, r.hit = 0, 0, l.detail, l.hit
	if l.hit {
		r.phases.Queue = waited
	} else {
		r.phases.SlotActivation = waited
	}
	err = use(l)
	if err == nil {
		return sl, false, nil
	}
	if lostErr := workerGone(ctx, l, err); lostErr != nil {
		return sl, true, shared.AsError(lostErr, r.op, sl.spec.SlotID)
	}
	var taken *shared.Error
	if cause := context.Cause(l.ctx); ctx.Err() == nil && errors.As(cause, &taken) {
		err = taken // the slot took the lease back, and says why
	}
	return sl, false, shared.AsError(err, r.op, sl.spec.SlotID)
}

// workerGone tells whether a request failed because its worker did, and if so
// how the worker ended. A caller that left, or a deadline, is no such failure.
func workerGone(ctx context.Context, l *lease, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if shared.KindOf(err) != shared.KindWorkerLost && shared.KindOf(context.Cause(l.ctx)) != shared.KindWorkerLost {
		return nil
	}
	// A process that lives on without answering has to go, so that the slot
	// gets one that does.
	l.lost()
	wait := time.NewTimer(exitWait)
	defer wait.Stop()
	select {
	case <-l.proc.Done():
		return workerLost(l.proc.Exit())
	case <-ctx.Done():
	case <-wait.C:
	}
	return &shared.Error{Kind: shared.KindWorkerLost, Message: "the worker does not answer any more", Err: err}
}

// ending gives every end of a request its kind: the client's and the
// deadline's come before whatever the worker made of them.
func ending(ctx context.Context, r *request, err error) error {
	if err == nil {
		return nil
	}
	e := shared.AsError(err, r.op, "")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e = &shared.Error{Op: r.op, SlotID: e.SlotID, Kind: shared.KindDeadline, Message: "the deadline passed before the request had ended"}
	case ctx.Err() != nil:
		e = &shared.Error{Op: r.op, SlotID: e.SlotID, Kind: shared.KindCancelled, Message: "the caller gave up"}
	}
	return e
}

// find resolves a requirement, and waits for identities that are still being
// read when the answer depends on them.
func (s *Supervisor) find(ctx context.Context, req shared.Requirement, onMiss shared.OnMiss, progress func(string, shared.Progress) error) (target, error) {
	t, undecided, snap, err := s.look(req)
	if err != nil || undecided == nil {
		return t, err
	}
	news, unsubscribe := s.watchers.subscribe()
	defer unsubscribe()
	var told shared.Progress
	for undecided != nil {
		first := undecided[0]
		switch mode := orOwn(onMiss, first); mode {
		case shared.OnMissFail:
			return target{}, &shared.Error{Op: "resolve", SlotID: first.spec.SlotID, Kind: shared.KindNotResident, Message: "the model file is still being read, and the request does not wait for it"}
		case shared.OnMissPending:
			return target{}, &shared.Error{Op: "resolve", SlotID: first.spec.SlotID, Kind: shared.KindPending, Message: "the model file is still being read", RetryAfter: time.Second}
		}
		if p := first.info().Progress; progress != nil && p != told && p != (shared.Progress{}) {
			told = p
			if err := progress(first.spec.SlotID, p); err != nil {
				return target{}, err
			}
		}
		select {
		case <-news:
		case <-snap.newer:
		case <-ctx.Done():
			return target{}, context.Cause(ctx)
		case <-s.ctx.Done():
			return target{}, shuttingDown()
		}
		if t, undecided, snap, err = s.look(req); err != nil {
			return target{}, err
		}
	}
	return t, nil
}

func (s *Supervisor) look(req shared.Requirement) (target, []*slot, *snapshot, error) {
	snap := s.registry.current.Load()
	t, undecided, err := snap.resolve(req)
	return t, undecided, snap, err
}

func orOwn(onMiss shared.OnMiss, sl *slot) shared.OnMiss {
	if onMiss == "" {
		return sl.spec.OnMiss
	}
	return onMiss
}

// choose picks the slot of a group that can most likely serve soonest: a ready
// one before one that has to be prepared, among those the preferred one unless
// all its sequences are taken, then the one with the least to do. It reads views, so
// it may be wrong by a moment; the slot's owner decides for real.
func choose(slots []*slot, avoid, preferred *slot) *slot {
	if len(slots) == 1 {
		return slots[0]
	}
	best, bestRank, bestLoad := slots[0], int(^uint(0)>>1), 0
	for _, sl := range slots {
		v := sl.view.Load()
		rank, load := 0, v.InFlight
		switch {
		case v.Process == shared.ProcessFailed || v.LastError != "" && v.Status == shared.SlotEmpty:
			rank = 3
		case v.Status == shared.SlotPrefetching:
			rank = 1
		case !v.Status.Ready():
			rank = 2
		}
		if sl == avoid {
			rank += 4 // its worker was just lost
		}
		if sl == preferred && v.InFlight < max(v.Parallel, 1) {
			load = -1
		}
		if rank < bestRank || rank == bestRank && load < bestLoad {
			best, bestRank, bestLoad = sl, rank, load
		}
	}
	return best
}
