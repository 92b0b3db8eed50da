package supervisor

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// publish makes the present state visible.
func (o *owner) publish() {
	s, st := o.slot.spec, &o.state
	info := shared.SlotInfo{
		SlotID:        s.SlotID,
		Model:         s.Model,
		ModelPath:     s.ModelPath,
		Identity:      o.identity,
		Status:        st.status,
		Process:       st.process,
		Restarts:      st.restarts(),
		Device:        s.Device,
		Transfer:      s.Transfer,
		ContextTokens: s.ContextTokens,
		Parallel:      s.Parallel,
		InFlight:      st.inFlight(),
		Progress:      o.progress,
		OnMiss:        s.OnMiss,
		Exit:          o.lastExit,
		Pin:           s.Pin,
		ReplicaOf:     s.ReplicaOf,
		File:          o.about,
		Adapters:      o.slot.adapters(),
		DeviceInfo:    o.slot.deviceInfo(),
	}
	o.showResume()
	if o.proc != nil {
		info.PID = o.proc.PID()
	}
	if holds := o.proc != nil && (st.host || st.status == shared.SlotResident || st.status == shared.SlotActive); !holds {
		o.slot.worker.Store(nil)
		o.slot.load.Store(nil)
	} else if o.slot.worker.Load() == nil {
		worker := o.proc.Worker()
		o.slot.worker.Store(&worker)
	}
	if st.host {
		info.HostBufferID, info.HostBytes = o.host.HostBufferID, o.host.HostBytes
		info.Pinned, info.PinNote = o.host.Pinned, o.host.PinNote
		info.Probe, info.TransferReason = o.host.Probe, o.host.Reason
		if o.host.Transfer != "" {
			info.Transfer = o.host.Transfer
		}
	}
	if o.device.DeviceBufferID != "" {
		info.DeviceBufferID, info.DeviceBytes = o.device.DeviceBufferID, o.device.DeviceBytes
		info.ContextTokens = o.device.ContextTokens
	}
	if o.slot.accounted() {
		h := o.held()
		info.HostHeld, info.DeviceHeld = h.host, h.device
	}
	if st.lastErr != nil {
		info.LastError, info.LogTail = st.lastErr.Text(), st.lastErr.LogTail
	}
	o.stale = false
	o.slot.view.Store(&info)
	o.slot.env.changed()
}

// showResume makes visible when the next process is started.
func (o *owner) showResume() {
	var at time.Time
	if o.state.process == shared.ProcessBackoff || o.state.process == shared.ProcessFailed && o.state.resumes {
		at = o.backoff.at
	}
	o.slot.resumes.Store(&at)
}
