package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// healthz says that the proxy itself answers.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

const readyTimeout = 2 * time.Second

type readyBody struct {
	Ready bool              `json:"ready"`
	Slots map[string]string `json:"slots"`
}

// awaited reports whether a slot should be resident and is not: it is being
// prepared or restarted, or has failed. One that was evicted, or that waits for
// its first request, is as it should be.
func awaited(s shared.SlotInfo) bool {
	return !s.Status.Ready() && (!s.Identity.Complete() || s.LastError != "" || s.Status != shared.SlotEmpty ||
		s.Process != shared.ProcessUp && s.Process != shared.ProcessStopped)
}

// readyz is ready when no slot is awaited.
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
		if awaited(slot) {
			body.Ready = false
		}
	}
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}
