package supervisor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// owner is the goroutine that a slot belongs to, and what only it touches.
type owner struct {
	slot  *slot
	state slotState
	queue []message // what performing an action made happen at once

	calls  map[callID]*call
	leases map[*lease]struct{}

	proc   Process
	files  []os.FileInfo   // of the model and its adapters when the process was started; nil where there was none
	exited <-chan struct{} // of proc

	ctx        context.Context // of everything the slot has running
	cancel     context.CancelFunc
	running    sync.WaitGroup
	stopLaunch context.CancelFunc
	stopWork   context.CancelFunc
	delays     *backoff.ExponentialBackOff
	backoff    alarm
	evictBy    alarm
	watch      alarm // for a worker that does not get on
	pulse      alarm // for the next heartbeat
	idle       alarm // for a slot that nobody uses

	identity   shared.Identity
	about      shared.ModelFile
	modelBytes int64
	need       amount  // estimated, and once it has been resident measured
	grants     int     // of room, heard of
	said       holding // to the ledger
	hosts      int     // host buffers made so far, for their names
	host       shared.PrefetchResult
	device     shared.ActivateResult
	progress   shared.Progress
	stages     stages
	lastExit   string
	stale      bool // the view lacks something
	log        hclog.Logger
}

func newOwner(s *slot) *owner {
	p := s.spec.Restart
	if p == (shared.RestartPolicy{}) {
		p = s.env.restart
	}
	o := &owner{
		slot: s,
		state: newSlotState(slotRules{
			restart: p, wedgeAfter: s.env.wedgeAfter, budgeted: s.accounted(), pin: s.spec.Pin, idleTTL: s.spec.IdleTTL,
		}, s.spec.Preload),
		calls:  map[callID]*call{},
		leases: map[*lease]struct{}{},
		log:    s.env.log.With("slot", s.spec.SlotID),
		delays: &backoff.ExponentialBackOff{
			InitialInterval: p.Delay, Multiplier: 2, MaxInterval: p.MaxDelay, RandomizationFactor: 0.25,
		},
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// run is the owner's loop. It never waits for anything but the next event.
func (o *owner) run() {
	defer close(o.slot.done)
	for !o.state.finished {
		select {
		case m := <-o.slot.inbox:
			o.queue = append(o.queue, m)
		case <-o.exited:
			o.queue = append(o.queue, o.exit())
		case <-o.backoff.fired():
			o.queue = append(o.queue, message{ev: evBackoffOver{}})
		case <-o.evictBy.fired():
			o.queue = append(o.queue, message{ev: evEvictDeadline{}})
		case <-o.watch.fired():
			o.watch.at = time.Time{} // so that it can be set anew for the same moment
			o.queue = append(o.queue, message{ev: evWatch{now: time.Now()}})
		case <-o.idle.fired():
			o.idle.at = time.Time{}
			o.queue = append(o.queue, message{ev: evIdle{now: time.Now()}})
		case <-o.pulse.fired():
			o.beat()
		}
		for len(o.queue) > 0 {
			m := o.queue[0]
			o.queue = o.queue[1:]
			o.take(m)
		}
		o.queue = nil
		if o.stale {
			o.publish()
		}
	}
	for _, a := range []*alarm{&o.backoff, &o.evictBy, &o.watch, &o.pulse, &o.idle} {
		a.stop()
	}
	if o.slot.accounted() {
		o.slot.env.accountant.close(o.slot)
	}
	for l := range o.leases {
		l.cancel(shuttingDown())
	}
	o.cancel()
	o.drain()
}

// drain takes the reports of what is still running, until nothing is.
func (o *owner) drain() {
	idle := make(chan struct{})
	go func() {
		o.running.Wait()
		close(idle)
	}()
	for {
		select {
		case m := <-o.slot.inbox:
			o.refuseLate(m)
		case <-idle:
			return
		}
	}
}

// refuseLate answers a caller that came after the slot was closed, and drops
// everything else: it is about a slot that is no more.
func (o *owner) refuseLate(m message) {
	if m.call != nil {
		o.calls[m.call.id] = m.call
		o.answer(m.call.id, answer{err: shuttingDown()})
	}
}

// take decides on one event and does what follows from it.
func (o *owner) take(m message) {
	switch {
	case m.call == nil:
	case isLeft(m.ev):
		delete(o.calls, m.call.id)
		o.takeBack(m.call)
	default:
		o.calls[m.call.id] = m.call
	}
	if m.note != nil {
		m.note(o)
	}
	if m.ev == nil {
		return
	}
	before := o.state
	var actions []action
	o.state, actions = step(before, m.ev)
	o.forget()
	o.rearm()
	o.account() // before an action makes a claim
	o.logChange(before, m.ev)
	o.publish() // first, so that whoever gets an answer sees the state it tells of
	for _, a := range actions {
		o.perform(a)
	}
}

func isLeft(ev event) bool {
	_, left := ev.(evLeft)
	return left
}

// takeBack returns a lease that was granted to a caller after it had given up.
func (o *owner) takeBack(c *call) {
	select {
	case a := <-c.answer:
		if a.lease != nil {
			a.lease.once.Do(func() {
				a.lease.cancel(nil)
				delete(o.leases, a.lease)
				o.queue = append(o.queue, message{ev: evRelease{epoch: a.lease.epoch, now: time.Now()}})
			})
		}
	default:
	}
}

// forget drops the facts of buffers that are gone.
func (o *owner) forget() {
	if !o.state.host {
		o.host = shared.PrefetchResult{}
	}
	if !o.state.status.Ready() && o.state.status != shared.SlotEvicting {
		o.device = shared.ActivateResult{}
	}
	if o.state.status != shared.SlotPrefetching && o.state.process != shared.ProcessStarting && o.state.declared == declaredKnown {
		o.progress = shared.Progress{}
	}
}

// exit is the end of the present process as an event.
func (o *owner) exit() message {
	info := o.proc.Exit()
	o.proc, o.exited = nil, nil
	o.lastExit = info.String()
	o.pulse.stop()
	if o.stopWork != nil {
		o.stopWork()
	}
	return message{ev: evExited{epoch: o.state.epoch, now: time.Now(), err: workerLost(info)}}
}

func workerLost(info ExitInfo) *shared.Error {
	return &shared.Error{
		Kind:    shared.KindWorkerLost,
		Message: "the worker process ended (" + info.Cause() + ")",
		LogTail: info.LogTail,
	}
}

func (o *owner) perform(a action) {
	switch a := a.(type) {
	case actLaunch:
		o.launch(a.epoch)
	case actCancelLaunch:
		o.stopLaunch()
	case actStop:
		o.stop(a)
	case actClaim:
		o.tell(shared.Progress{Stage: "room"})
		o.slot.env.accountant.claim(claim{slotID: o.slot.spec.SlotID, need: o.need, urgent: a.urgent})
	case actUnclaim:
		o.slot.env.accountant.unclaim(o.slot.spec.SlotID)
	case actDecline:
		o.slot.env.accountant.decline(o.slot.spec.SlotID)
		o.said = holding{grants: -1} // it is told anew when the slot is idle again
	case actPrefetch:
		o.prefetch(a.epoch)
	case actActivate:
		o.activate(a.epoch)
	case actCancelPreparation:
		o.stopWork()
	case actEvict:
		o.evict(a)
	case actGrant:
		o.grant(a)
	case actDone:
		o.answer(a.call, answer{})
	case actRefuse:
		o.answer(a.call, answer{err: o.refusal(a.err)})
	case actStartBackoff:
		if a.crashes == 1 {
			o.delays.Reset()
		}
		o.backoff.set(o.delays.NextBackOff())
		o.showResume()
	case actAwaitInterval:
		o.backoff.set(a.rest)
		o.showResume()
	case actStartEvictTimer:
		o.evictBy.set(o.slot.env.drainTimeout)
	case actCancelLeases:
		for l := range o.leases {
			if l.epoch == a.epoch {
				l.cancel(o.refusal(a.err))
			}
		}
	case actFault:
		o.log.Error("internal error: "+a.text, "state", fmt.Sprintf("%+v", o.state))
	case actFinish:
	}
}

// grant hands out a lease. Its caller may have given up; it then says so, and
// the lease is taken back.
func (o *owner) grant(a actGrant) {
	c := o.calls[a.call]
	l := &lease{slot: o.slot, epoch: a.epoch, proc: o.proc, worker: o.proc.Worker(), hit: a.hit}
	l.ctx, l.cancel = context.WithCancelCause(c.ctx)
	if !a.hit {
		l.detail = o.stages.during(c.since, time.Now())
	}
	o.leases[l] = struct{}{}
	o.answer(a.call, answer{lease: l})
}

func (o *owner) answer(id callID, a answer) {
	o.calls[id].answer <- a
	delete(o.calls, id)
}

// refusal adds what the machine does not know: which slot, and when to come back.
func (o *owner) refusal(err *shared.Error) error {
	e := shared.AsError(err, "", o.slot.spec.SlotID)
	if e.RetryAfter != 0 || e.Kind != shared.KindPending && e.Kind != shared.KindUnavailable {
		return e
	}
	switch {
	case o.state.process == shared.ProcessBackoff || o.state.process == shared.ProcessFailed && o.state.resumes:
		e.RetryAfter = max(time.Until(o.backoff.at), time.Millisecond)
	case e.Kind == shared.KindPending:
		e.RetryAfter = o.stages.retryAfter()
	}
	return e
}

// tell passes progress on to the view and to everybody who waits.
func (o *owner) tell(p shared.Progress) {
	o.progress, o.stale = p, true
	for _, w := range o.state.waiters {
		c := o.calls[w.call]
		select {
		case <-c.progress: // older news, not read yet
		default:
		}
		c.progress <- p // this goroutine is the only sender, so there is room
	}
}
