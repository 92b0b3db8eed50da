package supervisor

import "github.com/firstframe/firstframe/shared"

// held is what the slot takes of the budgets: what it may allocate until that is
// measured, and nothing less than it has until that is free.
func (o *owner) held() amount {
	st := &o.state
	measured := amount{host: o.host.HostBytes + o.device.HostBytes, device: o.device.DeviceBytes}
	switch {
	case st.room && o.device.DeviceBufferID != "":
		return measured
	case st.room:
		return o.need
	case st.host:
		return amount{host: o.host.HostBytes}
	}
	return amount{}
}

// account tells the ledger what changed.
func (o *owner) account() {
	if !o.slot.accounted() {
		return
	}
	st := &o.state
	resting := st.work == workNone && !st.stopping && !st.closing
	h := holding{
		held:   o.held(),
		grants: o.grants,
		idle:   resting && st.status == shared.SlotResident,
		keeps:  resting && st.status == shared.SlotEmpty && st.host && !st.wants() && st.claim == claimNone,
		since:  st.since,
		used:   st.used,
	}
	if h != o.said {
		o.said = h
		o.slot.env.accountant.say(o.slot.spec.SlotID, h)
	}
}
