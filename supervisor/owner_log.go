package supervisor

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// logChange writes one line for each change of the slot's state, with the event
// that caused it. A slot that goes from request to request is not news. What a
// request says, and what keeps its pages apart from others, is in no line.
func (o *owner) logChange(before slotState, ev event) {
	after := &o.state
	if before.process != after.process {
		o.line(hclog.Info, ev, "process changed", "from", before.process, "to", after.process, "epoch", after.epoch)
	}
	if before.status != after.status {
		level := hclog.Info
		if before.status.Ready() && after.status.Ready() {
			level = hclog.Debug
		}
		if level != hclog.Debug || o.log.IsDebug() { // the words are not free, and every request comes here
			o.line(level, ev, "slot changed", "from", before.status, "to", after.status)
		}
	}
	if before.claim != claimOpen && after.claim == claimOpen {
		o.line(hclog.Info, ev, "slot needs room", "host_bytes", o.need.host, "device_bytes", o.need.device, "urgent", after.urgent())
	}
	if before.room != after.room {
		held := o.held()
		o.line(hclog.Info, ev, "slot's room changed", "reserved", after.room, "host_bytes", held.host, "device_bytes", held.device)
	}
	if before.stopping != after.stopping && after.stopping {
		o.line(hclog.Info, ev, "process is being ended", "epoch", after.epoch)
	}
	if before.lastErr != after.lastErr && after.lastErr != nil {
		o.line(hclog.Warn, ev, "slot failed", "error", after.lastErr.Text())
	}
}

// line writes one line of a kind that machines can tell apart by its message.
func (o *owner) line(level hclog.Level, ev event, message string, args ...any) {
	name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", ev), "supervisor.ev"))
	identity := ""
	if o.identity.Complete() {
		identity = o.identity.String()
	}
	o.log.Log(level, message, append(args, "cause", name, "identity", identity)...)
}
