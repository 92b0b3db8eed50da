package slotworker

import (
	"github.com/firstframe/firstframe/shared"
)

// slotState is the worker's account of its slot. Only the owner goroutine
// touches it. Work that takes long is bracketed: begin… checks that the order
// is legal and hands out what the work needs, end… takes back what it left.
type slotState struct {
	slotID   string // of the last prefetch
	status   shared.SlotStatus
	host     *hostBuffer
	resident *resident
	users    int             // calls that use resident now
	idle     []chan struct{} // closed when users reaches zero
	draining bool
}

// order refuses orders that no state allows: the slot is busy with another
// order, or the worker is ending.
func (s *slotState) order(name string) error {
	switch {
	case s.draining:
		return shared.Errorf(shared.KindShuttingDown, "the worker is ending")
	case s.status == shared.SlotPrefetching || s.status == shared.SlotEvicting:
		return shared.Errorf(shared.KindBusy, "cannot %s: the slot is %s", name, s.status)
	default:
		return nil
	}
}

// beginPrefetch hands out the host buffer that an eviction kept, if any.
func (s *slotState) beginPrefetch(slotID string) (*hostBuffer, error) {
	if err := s.order("prefetch"); err != nil {
		return nil, err
	}
	if s.status != shared.SlotEmpty {
		return nil, shared.Errorf(shared.KindProtocol, "cannot prefetch: the slot is %s and has to be evicted first", s.status)
	}
	s.slotID = slotID
	s.status = shared.SlotPrefetching
	kept := s.host
	s.host = nil
	return kept, nil
}

// endPrefetch takes the filled host buffer, or nil when there is none.
func (s *slotState) endPrefetch(host *hostBuffer) {
	s.status = shared.SlotEmpty
	s.host = host
}

func (s *slotState) beginActivate() (*hostBuffer, error) {
	if err := s.order("activate"); err != nil {
		return nil, err
	}
	if s.status != shared.SlotEmpty {
		return nil, shared.Errorf(shared.KindProtocol, "cannot activate: the slot is %s already", s.status)
	}
	if s.host == nil {
		return nil, shared.Errorf(shared.KindProtocol, "cannot activate: nothing was prefetched")
	}
	s.status = shared.SlotPrefetching
	host := s.host
	s.host = nil
	return host, nil
}

// endActivate takes the host buffer back, unless it proved useless, and the
// resident model, unless activation failed.
func (s *slotState) endActivate(host *hostBuffer, r *resident) {
	s.host, s.resident = host, r
	s.status = shared.SlotEmpty
	if r != nil {
		s.status = shared.SlotResident
	}
}

// beginEvict stops new users. The channel is closed once the old ones are gone.
func (s *slotState) beginEvict() (<-chan struct{}, error) {
	if s.draining {
		// An ending worker may still be emptied.
		if s.status == shared.SlotPrefetching || s.status == shared.SlotEvicting {
			return nil, shared.Errorf(shared.KindBusy, "cannot evict: the slot is %s", s.status)
		}
	} else if err := s.order("evict"); err != nil {
		return nil, err
	}
	s.status = shared.SlotEvicting
	return s.whenIdle(), nil
}

// takeEvicted hands out what is to be freed. Without dropHost the host buffer stays.
func (s *slotState) takeEvicted(dropHost bool) (*resident, *hostBuffer) {
	r := s.resident
	s.resident = nil
	if !dropHost {
		return r, nil
	}
	host := s.host
	s.host = nil
	return r, host
}

// keepModel leaves an evicted model with the host buffer when that stays and is
// all the memory that the model has.
func (s *slotState) keepModel(m Model) bool {
	if s.host == nil || s.host.transfer != shared.TransferMmap || s.host.device != nil || m.Info().OwnBytes > 0 {
		return false
	}
	s.host.model = m
	return true
}

// endEvict ends an eviction, also one that was given up with users left.
func (s *slotState) endEvict() {
	s.status = shared.SlotEmpty
	if s.resident != nil {
		s.status = shared.SlotResident
	}
}

// acquire gives the resident model to one call, which has to release it.
func (s *slotState) acquire() (*resident, error) {
	switch {
	case s.draining:
		return nil, shared.Errorf(shared.KindShuttingDown, "the worker is ending")
	case s.status != shared.SlotResident:
		return nil, shared.Errorf(shared.KindNotResident, "the slot is %s", s.status)
	default:
		s.users++
		return s.resident, nil
	}
}

func (s *slotState) release() {
	s.users--
	if s.users > 0 {
		return
	}
	for _, c := range s.idle {
		close(c)
	}
	s.idle = nil
}

// whenIdle gives a channel that is closed once nobody uses the resident model.
func (s *slotState) whenIdle() <-chan struct{} {
	c := make(chan struct{})
	if s.users == 0 {
		close(c)
	} else {
		s.idle = append(s.idle, c)
	}
	return c
}
