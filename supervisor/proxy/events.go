package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// eventJSON is what has changed since the event before it.
type eventJSON struct {
	Version string       `json:"version,omitempty"`
	Slots   []slotJSON   `json:"slots,omitempty"`
	Models  []string     `json:"models,omitempty"` // names that mean one identity
	Recent  []recentJSON `json:"recent,omitempty"` // newest first
}

// eventSpacing is the least time between two events: a page does not show more,
// and a busy slot changes with each request.
const eventSpacing = 50 * time.Millisecond

// events streams slots and ended requests to the page.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	latest := make(chan shared.SlotList, 1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		cancel(s.frontend.WatchSlots(ctx, func(l shared.SlotList) error {
			select {
			case <-latest: // nobody needs it any more
			default:
			}
			latest <- l // this goroutine alone fills it
			return ctx.Err()
		}))
	}()
	defer func() { cancel(nil); <-watched }()
	endReading(w)
	out := newSSE(w, s.cfg.WriteTimeout)
	items, seen, changed := s.recent.since(0)
	if out.send(eventJSON{Version: s.cfg.Version, Recent: items}) != nil {
		return
	}
	for {
		var ev eventJSON
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case l := <-latest:
			for _, m := range routable(l) {
				ev.Models = append(ev.Models, m.ID)
			}
			for _, slot := range l.Slots {
				ev.Slots = append(ev.Slots, toSlotJSON(slot))
			}
		case <-changed:
			ev.Recent, seen, changed = s.recent.since(seen)
		}
		if out.send(ev) != nil {
			return
		}
		pause := time.NewTimer(eventSpacing)
		select {
		case <-pause.C:
		case <-ctx.Done():
		case <-s.stopping:
		}
		pause.Stop()
	}
}
