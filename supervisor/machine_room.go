package supervisor

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// claimState says whether the ledger owes the slot an answer.
type claimState uint8

const (
	claimNone    claimState = iota
	claimOpen               // it was asked for room
	claimGivenUp            // and then told that the room is not wanted
)

// lacksRoom reports whether the slot could go on if it had room in the budgets.
func (s slotState) lacksRoom() bool {
	return s.rules.budgeted && !s.room && s.startable()
}

// startable reports whether somebody wants the empty slot, and nothing is in the way.
func (s slotState) startable() bool {
	process := s.process == shared.ProcessStopped || s.process == shared.ProcessUp
	return s.status == shared.SlotEmpty && s.wants() && s.declared == declaredKnown && s.blocked == nil &&
		process && !s.stopping && !s.closing && s.work == workNone
}

// urgent reports whether others may be evicted for this slot: somebody asked for
// it, and it is not only that it was to be there from the start.
func (s slotState) urgent() bool { return s.asked || len(s.waiters) > 0 }

// balance asks for room and gives back what is not needed.
func (t *transition) balance() {
	switch {
	case t.claim == claimNone && t.lacksRoom():
		t.claim = claimOpen
		t.do(actClaim{urgent: t.urgent()})
	case t.claim == claimOpen && !t.lacksRoom():
		t.claim = claimGivenUp
		t.do(actUnclaim{})
	}
	needed := t.wants() && t.declared == declaredKnown && t.blocked == nil && !t.closing &&
		t.process != shared.ProcessBackoff && t.process != shared.ProcessFailed
	if t.room && t.status == shared.SlotEmpty && t.work == workNone && !needed {
		t.room = false
	}
}

func (t *transition) onRoom() {
	if t.claim == claimNone {
		t.do(actFault{"room was granted that was not asked for"})
		return
	}
	t.claim, t.room = claimNone, true
}

// onNoRoom ends the wish for the slot: who wants it asks again.
func (t *transition) onNoRoom(e evNoRoom) {
	given := t.claim == claimGivenUp
	t.claim = claimNone
	if given || !e.urgent && t.urgent() {
		return
	}
	t.wanted, t.asked, t.lastErr = false, false, e.err
	t.refuseWaiters(e.err)
}

// onReclaim gives up buffers that nobody uses.
func (t *transition) onReclaim(e evReclaim) {
	free := !t.closing && !t.stopping && t.work == workNone && t.process == shared.ProcessUp && !t.rules.pin
	switch {
	case free && t.status == shared.SlotResident:
		t.status, t.dropHost = shared.SlotEvicting, e.dropHost
		t.wanted, t.asked = false, false
	case free && t.status == shared.SlotEmpty && t.host && !t.wants() && e.dropHost:
		t.status, t.dropHost = shared.SlotEvicting, true
	default:
		t.do(actDecline{})
	}
}

// idleAt is when the slot will have been without use for too long; zero when
// that does not matter.
func (s slotState) idleAt() time.Time {
	if s.rules.idleTTL == 0 || s.status != shared.SlotResident || s.stopping || s.closing {
		return time.Time{}
	}
	return s.used.Add(s.rules.idleTTL)
}

func (t *transition) onIdle(e evIdle) {
	if at := t.idleAt(); at.IsZero() || e.now.Before(at) {
		return
	}
	t.status = shared.SlotEvicting
	t.wanted, t.asked = false, false
}
