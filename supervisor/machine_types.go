package supervisor

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// callID names one caller that waits for a slot's answer.
type callID uint64

// epoch numbers the processes of a slot. Reports of an earlier process carry
// its number, and are told apart from those of the present one by it.
type epoch uint64

// waiter is a caller that waits for the slot to become resident.
type waiter struct {
	call  callID
	lease bool // wants a lease, not only the news
}

// work is the one call that may be running in the worker on the slot's behalf.
type work uint8

const (
	workNone     work = iota
	workPrefetch      // filling the host buffer
	workActivate      // building the device buffers
	workEvict         // freeing them, or making sure after a failed preparation that none are left
)

// declared says whether the slot's identity is known.
type declared uint8

const (
	declaredUnknown declared = iota // still being read from the file
	declaredKnown
	declaredBad // the file cannot be what was declared, or cannot be read
)

// slotState is everything that decides what a slot does next. It is a value:
// step gives a new one and leaves the old one as it was.
type slotState struct {
	rules slotRules

	status  shared.SlotStatus
	process shared.ProcessState
	epoch   epoch // of the present or, when stopped, the latest process; 0 before the first
	host    bool  // the worker keeps a host buffer
	work    work

	leases  int // of the present process
	orphans int // of processes that have ended, not given back yet

	wanted   bool // to be resident even when nobody waits
	declared declared
	reason   *shared.Error // why declared is declaredBad
	blocked  *shared.Error // why another preparation would fail in the same way
	lastErr  *shared.Error // for people; cleared by the next success

	waiters    []waiter // for residency, in order of arrival
	evictors   []callID
	restarters []callID

	cancelling bool // the running preparation is being undone
	stopping   bool // the process is being ended
	restart    bool // a new one is to start at once when it has ended
	stuck      bool // it outlived the attempt to end it
	dropHost   bool // the running eviction takes the host buffer too
	closing    bool
	finished   bool

	cause   *shared.Error // why the slot itself is ending its process
	window  time.Time     // when the present interval of restarts began
	crashes int           // in that interval
	resumes bool          // the failed process is tried again when the interval is over

	claim claimState
	room  bool      // there is room in the budgets for all that the slot needs
	asked bool      // by a request that did not wait
	since time.Time // when it last became resident
	used  time.Time // the end of its last use

	heard    time.Time // the last sign of life
	moved    time.Time // the last time that the worker got on, or had nothing to do
	progress uint64    // its counter then
}

// slotRules is what a slot's declaration says about its life.
type slotRules struct {
	restart shared.RestartPolicy
	// wedgeAfter is how long a worker may give no sign of life, or not get on with
	// the work it has; 0 means for ever.
	wedgeAfter time.Duration
	// step is how much longer than that it may not get on although it answers.
	step time.Duration
	// budgeted says that there are budgets to ask for room in.
	budgeted bool
	// pin keeps the slot from being evicted for another one.
	pin bool
	// idleTTL is after which time without use it is evicted; 0 means never.
	idleTTL time.Duration
}

// newSlotState is a declared slot before anything is known or done.
func newSlotState(rules slotRules, preload bool) slotState {
	return slotState{
		rules:   rules,
		status:  shared.SlotEmpty,
		process: shared.ProcessStopped,
		wanted:  preload,
	}
}

// ready reports whether a lease can be granted at once.
func (s slotState) ready() bool {
	return s.status.Ready() && s.process == shared.ProcessUp && !s.stopping && !s.closing
}

// wants reports whether anybody wants the slot resident.
func (s slotState) wants() bool { return s.wanted || len(s.waiters) > 0 }

// inFlight counts all leases that are not given back.
func (s slotState) inFlight() int { return s.leases + s.orphans }

// restarts counts the processes after the first.
func (s slotState) restarts() int {
	if s.epoch == 0 {
		return 0
	}
	return int(s.epoch - 1)
}

// present reports whether a report is about the present process and the call
// that is running in it. Others are late: their process has ended meanwhile.
func (s slotState) present(ep epoch, w work) bool {
	return ep == s.epoch && s.work == w && s.process == shared.ProcessUp
}

// event is what may happen to a slot; the types below are all there are.
type event interface{ isEvent() }

type (
	// evDeclared: the identity is known, or the reason why there is none.
	evDeclared struct{ err *shared.Error }
	// evRedeclare: the identity is being read anew.
	evRedeclare struct{}
	// evAcquire: a request wants a lease.
	evAcquire struct {
		call   callID
		onMiss shared.OnMiss
	}
	// evRelease: a lease came back.
	evRelease struct {
		epoch epoch
		now   time.Time
	}
	// evRoom: the ledger has reserved what the slot needs.
	evRoom struct{}
	// evNoRoom: it has not, and says why; urgent is what the claim was.
	evNoRoom struct {
		err    *shared.Error
		urgent bool
	}
	// evReclaim: another slot needs what this one holds and does not use.
	evReclaim struct{ dropHost bool }
	// evIdle: the time has come to look how long the slot was not used.
	evIdle struct{ now time.Time }
	// evPrepare: an operator wants the slot resident.
	evPrepare struct{ call callID }
	// evEvict: an operator wants the device buffers freed.
	evEvict struct {
		call     callID
		dropHost bool
	}
	// evRestart: an operator wants another process.
	evRestart struct{ call callID }
	// evLeft: a caller does not wait any more.
	evLeft struct{ call callID }
	// evLaunched: the process answers.
	evLaunched struct {
		epoch epoch
		now   time.Time
	}
	// evLaunchFailed: there is no process.
	evLaunchFailed struct {
		epoch epoch
		now   time.Time
		err   *shared.Error
	}
	// evExited: the process has ended.
	evExited struct {
		epoch epoch
		now   time.Time
		err   *shared.Error
	}
	// evStopped: the attempt to end the process is over; without an evExited
	// before it, the process is still there.
	evStopped struct{ epoch epoch }
	// evBeat: the worker gave a sign of life, and says whether it has requests.
	evBeat struct {
		epoch    epoch
		now      time.Time
		progress uint64
		busy     bool
	}
	// evWatch: the time has come to look whether the worker still gets on.
	evWatch struct{ now time.Time }
	// evCutOff: the worker answers, but nobody could connect to it again.
	evCutOff struct {
		epoch epoch
		err   *shared.Error
	}
	// evOutdated: the process may not read the file that the model's path names by now.
	evOutdated struct{ epoch epoch }
	// evUnreachable: a request found that the process does not answer any more.
	evUnreachable struct{ epoch epoch }
	// evPrefetched: the host buffer is filled.
	evPrefetched struct{ epoch epoch }
	// evActivated: the device buffers are there and proved.
	evActivated struct {
		epoch epoch
		now   time.Time
	}
	// evPrepareFailed: prefetch or activation did not succeed.
	evPrepareFailed struct {
		epoch epoch
		err   *shared.Error
	}
	// evEvicted: the buffers are free.
	evEvicted struct {
		epoch    epoch
		dropHost bool
	}
	// evEvictFailed: the worker could not free them.
	evEvictFailed struct {
		epoch epoch
		err   *shared.Error
	}
	// evEvictDeadline: leases had their time to end.
	evEvictDeadline struct{}
	// evBackoffOver: a new process may be started.
	evBackoffOver struct{}
	// evClose: the supervisor is ending.
	evClose struct{}
)

func (evDeclared) isEvent()      {}
func (evRedeclare) isEvent()     {}
func (evAcquire) isEvent()       {}
func (evRelease) isEvent()       {}
func (evPrepare) isEvent()       {}
func (evEvict) isEvent()         {}
func (evRestart) isEvent()       {}
func (evLeft) isEvent()          {}
func (evLaunched) isEvent()      {}
func (evLaunchFailed) isEvent()  {}
func (evExited) isEvent()        {}
func (evStopped) isEvent()       {}
func (evUnreachable) isEvent()   {}
func (evOutdated) isEvent()      {}
func (evRoom) isEvent()          {}
func (evNoRoom) isEvent()        {}
func (evReclaim) isEvent()       {}
func (evIdle) isEvent()          {}
func (evBeat) isEvent()          {}
func (evWatch) isEvent()         {}
func (evCutOff) isEvent()        {}
func (evPrefetched) isEvent()    {}
func (evActivated) isEvent()     {}
func (evPrepareFailed) isEvent() {}
func (evEvicted) isEvent()       {}
func (evEvictFailed) isEvent()   {}
func (evEvictDeadline) isEvent() {}
func (evBackoffOver) isEvent()   {}
func (evClose) isEvent()         {}

// action is what a slot's owner has to do; the types below are all there are.
type action interface{ isAction() }

type (
	// actLaunch starts a process.
	actLaunch struct{ epoch epoch }
	// actCancelLaunch gives up the start that is going on.
	actCancelLaunch struct{}
	// actStop ends the process; with drain set, requests may end first, with kill
	// set it is not asked.
	actStop struct {
		epoch epoch
		drain bool
		kill  bool
	}
	// actClaim asks the ledger for room; one answer comes.
	actClaim struct{ urgent bool }
	// actUnclaim says that the room is not wanted any more.
	actUnclaim struct{}
	// actDecline says that what the ledger asks back is in use.
	actDecline struct{}
	// actPrefetch fills the host buffer.
	actPrefetch struct{ epoch epoch }
	// actActivate builds the device buffers.
	actActivate struct{ epoch epoch }
	// actCancelPreparation ends the running prefetch or activation.
	actCancelPreparation struct{}
	// actEvict frees the device buffers.
	actEvict struct {
		epoch    epoch
		dropHost bool
	}
	// actGrant hands a lease to a caller; hit says that it did not have to wait.
	actGrant struct {
		call  callID
		epoch epoch
		hit   bool
	}
	// actDone tells a caller that what it asked for is so.
	actDone struct{ call callID }
	// actRefuse tells a caller why it gets nothing.
	actRefuse struct {
		call callID
		err  *shared.Error
	}
	// actStartBackoff arms the timer that evBackoffOver comes from, or arms it
	// anew. A timer is never disarmed: when it fires late, nothing happens.
	actStartBackoff struct{ crashes int }
	// actAwaitInterval arms the same timer for the end of the restarts' interval.
	actAwaitInterval struct{ rest time.Duration }
	// actStartEvictTimer arms the timer that evEvictDeadline comes from, or arms
	// it anew.
	actStartEvictTimer struct{}
	// actCancelLeases ends the requests of a process, for this reason.
	actCancelLeases struct {
		epoch epoch
		err   *shared.Error
	}
	// actFault reports an event that this state cannot have caused.
	actFault struct{ text string }
	// actFinish: the slot is closed.
	actFinish struct{}
)

func (actLaunch) isAction()            {}
func (actCancelLaunch) isAction()      {}
func (actStop) isAction()              {}
func (actPrefetch) isAction()          {}
func (actActivate) isAction()          {}
func (actCancelPreparation) isAction() {}
func (actEvict) isAction()             {}
func (actGrant) isAction()             {}
func (actDone) isAction()              {}
func (actRefuse) isAction()            {}
func (actStartBackoff) isAction()      {}
func (actClaim) isAction()             {}
func (actUnclaim) isAction()           {}
func (actDecline) isAction()           {}
func (actAwaitInterval) isAction()     {}
func (actStartEvictTimer) isAction()   {}
func (actCancelLeases) isAction()      {}
func (actFault) isAction()             {}
func (actFinish) isAction()            {}
