package supervisor

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// beat asks the worker for a sign of life, beside the owner. The next question
// is not asked before this one is answered or given up: a worker that does not
// answer is the watch's business.
func (o *owner) beat() {
	ep, proc, worker, env := o.state.epoch, o.proc, o.proc.Worker(), o.slot.env
	patience := max(env.heartbeat, env.wedgeAfter/2)
	o.work(func(ctx context.Context) message {
		asked := time.Now()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		res, err := worker.Heartbeat(ctx)
		next := func(o *owner) {
			if o.state.epoch == ep && o.proc != nil {
				o.pulse.set(max(env.heartbeat-time.Since(asked), 0))
			}
		}
		if err != nil {
			o.slot.post(message{note: next})
			return message{}
		}
		if err := proc.Reachable(); err != nil {
			return message{ev: evCutOff{epoch: ep, err: shared.AsError(err, "", o.slot.spec.SlotID)}, note: next}
		}
		return message{ev: evBeat{epoch: ep, now: time.Now(), progress: res.Progress, busy: res.Running+res.Waiting > 0}, note: next}
	})
}

// rearm sets the alarms that follow from the state.
func (o *owner) rearm() {
	o.watch.setAt(o.state.watchAt())
	o.idle.setAt(o.state.idleAt())
}
