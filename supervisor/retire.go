package supervisor

import (
	"context"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// leftBehind reports whether an error only says that the slot has ended because a
// reload took it out of service. What has taken its place is visible by then.
func (s *slot) leftBehind(err error) bool {
	return s.retired.Load() && shared.KindOf(err) == shared.KindShuttingDown
}

// cutOff ends a request whose client has got a part of the answer already.
func cutOff(op string, sl *slot) error {
	return &shared.Error{
		Op: op, SlotID: sl.spec.SlotID, Kind: shared.KindCancelled,
		Message: "a reload took the slot out of service, and the time to finish is over",
	}
}

// awaitTurn returns when nothing is left of the slots that had this one's place
// before, since they use the same files and the same memory. It fails when one of
// them cannot be ended. A slot that is itself replaced meanwhile leaves the wait
// to its successor.
func (s *slot) awaitTurn(ctx context.Context) error {
	for p := s.before.Load(); p != nil; p = p.before.Load() {
		select {
		case <-p.done:
		case <-s.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if pid := p.info().PID; pid != 0 && (processID{PID: pid}).alive() {
			return shared.Errorf(shared.KindUnavailable, "the worker process %d that the slot had before could not be ended; restart the slot when it is gone", pid)
		}
	}
	s.before.Store(nil)
	return nil
}

// replacement is a new set of slots on its way to the registry.
type replacement struct {
	declaration shared.Declaration
	newSlot     func(shared.SlotSpec) *slot
	answer      chan<- replaced
}

// replaced is what became of it.
type replaced struct {
	plan  shared.Plan
	fresh []*slot // not declared yet
}

// replace makes a declaration the present one. Slots that are declared as before
// stay as they are; the others are taken out of service and closed, which lets
// their requests end.
func (r *registry) replace(p replacement) replaced {
	old := r.current.Load()
	result := replaced{plan: old.plan(p.declaration)}
	declarations := make([]declaration, len(p.declaration.Slots))
	kept := map[*slot]bool{}
	for i, spec := range p.declaration.Slots {
		var before *slot
		if at, ok := old.names.slots[spec.SlotID]; ok {
			before = old.slots[at].slot
			if len(before.spec.Changes(spec)) == 0 {
				declarations[i] = old.slots[at]
				kept[before] = true
				continue
			}
		} else {
			before = r.leaving(spec.SlotID)
		}
		s := p.newSlot(spec)
		s.before.Store(before)
		declarations[i].slot = s
		result.fresh = append(result.fresh, s)
	}
	r.publish(old, newSnapshot(newNames(declarations, p.declaration.Aliases), declarations))
	for _, d := range old.slots {
		if !kept[d.slot] {
			d.slot.retired.Store(true)
			d.slot.close()
			r.retired = append(r.retired, d.slot)
		}
	}
	r.retired = slices.DeleteFunc(r.retired, func(s *slot) bool { return s.over() })
	return result
}

// leaving is the latest slot of a name that was removed and may not have ended.
func (r *registry) leaving(slotID string) *slot {
	for _, s := range slices.Backward(r.retired) {
		if s.spec.SlotID == slotID {
			return s
		}
	}
	return nil
}

// over reports whether nothing is left of a closed slot.
func (s *slot) over() bool {
	select {
	case <-s.done:
		return s.info().PID == 0
	default:
		return false
	}
}

// everySlot is what has to be closed at the supervisor's end. It may be called
// once the registry's goroutine has ended.
func (r *registry) everySlot() []*slot {
	all := slices.Clone(r.retired)
	for _, d := range r.current.Load().slots {
		all = append(all, d.slot)
	}
	return all
}
