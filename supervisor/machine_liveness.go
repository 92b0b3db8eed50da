package supervisor

import (
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// preparing reports whether the worker was told to load something.
func (s slotState) preparing() bool { return s.work == workPrefetch || s.work == workActivate }

// watchAt is when the worker will have been silent, or standing still, for too
// long, unless there is a sign of life before; zero when nobody watches.
func (s slotState) watchAt() time.Time {
	if s.process != shared.ProcessUp || s.stopping || s.rules.wedgeAfter == 0 {
		return time.Time{}
	}
	heard, moved := s.heard.Add(s.rules.wedgeAfter), s.moved.Add(s.patience())
	if moved.Before(heard) {
		return moved
	}
	return heard
}

// patience is how long the worker may not get on with what it does. A sign of it
// comes after each step, and a step of a large model takes its time.
func (s slotState) patience() time.Duration { return s.rules.wedgeAfter + s.rules.step }

func (t *transition) onBeat(e evBeat) {
	if e.epoch != t.epoch || t.process != shared.ProcessUp {
		return
	}
	t.heard = e.now
	if e.progress != t.progress || !e.busy && !t.preparing() {
		t.moved, t.progress = e.now, e.progress
	}
}

// onWatch ends a worker that is stopped, or stuck where nothing reaches it. It
// is not asked to end: it could not answer.
//
// A watch that is late by more than a tenth of wedgeAfter says that this process
// was stopped itself, together with its container or machine. It has not listened,
// so the worker gets the whole time again.
func (t *transition) onWatch(e evWatch) {
	at := t.watchAt()
	if at.IsZero() || e.now.Before(at) {
		return
	}
	if e.now.Sub(at) > t.rules.wedgeAfter/10 {
		t.heard, t.moved = e.now, e.now
		return
	}
	text := fmt.Sprintf("the worker gave no sign of life for %v and was killed", t.rules.wedgeAfter)
	if e.now.Sub(t.heard) < t.rules.wedgeAfter {
		text = fmt.Sprintf("the worker did not get on with its work for %v and was killed", t.patience())
	}
	t.cause = refusal(shared.KindUnavailable, text)
	t.lastErr, t.stopping = t.cause, true
	t.do(actStop{epoch: t.epoch, kill: true})
}
