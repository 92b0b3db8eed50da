package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// slotJSON is a slot as the page and the readiness check show it.
type slotJSON struct {
	SlotID        string       `json:"slot_id"`
	Model         string       `json:"model"`
	Identity      identityJSON `json:"identity"`
	Status        string       `json:"status"`
	Process       string       `json:"process"`
	PID           int          `json:"pid"`
	Restarts      int          `json:"restarts"`
	LastError     string       `json:"last_error,omitempty"`
	Device        string       `json:"device"`
	Transfer      string       `json:"transfer"`
	Pinned        bool         `json:"pinned"`
	PinNote       string       `json:"pin_note,omitempty"`
	HostBytes     int64        `json:"host_bytes"`
	DeviceBytes   int64        `json:"device_bytes"`
	ContextTokens int          `json:"context_tokens"`
	InFlight      int          `json:"in_flight"`
	Stage         string       `json:"stage,omitempty"`
	DoneBytes     int64        `json:"done_bytes,omitempty"`
	TotalBytes    int64        `json:"total_bytes,omitempty"`
}

func toSlotJSON(s shared.SlotInfo) slotJSON {
	return slotJSON{
		SlotID: s.SlotID, Model: s.Model, Identity: toIdentityJSON(s.Identity), Status: string(s.Status),
		Process: string(s.Process), PID: s.PID, Restarts: s.Restarts, LastError: s.LastError, Device: s.Device,
		Transfer: string(s.Transfer), Pinned: s.Pinned, PinNote: s.PinNote, HostBytes: s.HostBytes,
		DeviceBytes: s.DeviceBytes, ContextTokens: s.ContextTokens, InFlight: s.InFlight,
		Stage: s.Progress.Stage, DoneBytes: s.Progress.DoneBytes, TotalBytes: s.Progress.TotalBytes,
	}
}

type slotActionBody struct {
	SlotID   string `json:"slot_id"`
	DropHost bool   `json:"drop_host"`
}

// slotAction prepares, evicts or restarts one slot. The slot is named in the
// body, since a slot id may contain a slash.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request) {
	var body slotActionBody
	if err := decodeBody(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	var info shared.SlotInfo
	var err error
	switch r.PathValue("op") {
	case "prepare":
		info, err = s.frontend.Prepare(r.Context(), body.SlotID, nil)
	case "evict":
		info, err = s.frontend.Evict(r.Context(), body.SlotID, body.DropHost)
	case "restart":
		info, err = s.frontend.Restart(r.Context(), body.SlotID)
	default:
		err = &httpError{status: http.StatusNotFound, code: "unknown_action", message: "actions are prepare, evict and restart"}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, toSlotJSON(info))
}

type eventJSON struct {
	Slots   []slotJSON        `json:"slots,omitempty"`
	Aliases map[string]string `json:"aliases,omitempty"`
	Recent  []recentJSON      `json:"recent,omitempty"`
}

// events streams slots and recent requests to the page, each after a change.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	lists := make(chan shared.SlotList)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		cancel(s.frontend.WatchSlots(ctx, func(l shared.SlotList) error {
			select {
			case lists <- l:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}))
	}()
	defer func() { cancel(nil); <-watched }()
	endReading(w)
	out := newSSE(w, s.cfg.WriteTimeout)
	items, changed := s.recent.list()
	if out.send(eventJSON{Recent: items}) != nil {
		return
	}
	for {
		var ev eventJSON
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case l := <-lists:
			ev.Aliases = l.Aliases
			for _, slot := range l.Slots {
				ev.Slots = append(ev.Slots, toSlotJSON(slot))
			}
		case <-changed:
			ev.Recent, changed = s.recent.list()
		}
		if out.send(ev) != nil {
			return
		}
	}
}

// healthz says that the proxy itself answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

const readyTimeout = 2 * time.Second

type readyBody struct {
	Ready bool              `json:"ready"`
	Slots map[string]string `json:"slots"`
}

// readyz is ready when every slot that should be resident is.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	list, err := s.frontend.ListSlots(ctx)
	if err != nil {
		writeError(w, err)
		return
	}
	body := readyBody{Ready: true, Slots: map[string]string{}}
	for _, slot := range list.Slots {
		body.Slots[slot.SlotID] = string(slot.Status)
		if !slot.Status.Ready() {
			body.Ready = false
		}
	}
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}
