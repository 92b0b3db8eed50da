package proxy

import (
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// maxRecent is how many ended requests the page shows.
const maxRecent = 50

// recentJSON is one ended request as the page draws it. It holds no text of
// prompts or answers.
type recentJSON struct {
	ID      string       `json:"id"`
	Time    time.Time    `json:"time"`
	Model   string       `json:"model"`
	Stream  bool         `json:"stream"`
	Outcome string       `json:"outcome"` // done, cancelled or the kind of the error
	Error   string       `json:"error,omitempty"`
	Timings *timingsJSON `json:"timings,omitempty"`
}

// recent is a ring of the last requests.
type recent struct {
	mu      sync.Mutex
	items   []recentJSON
	changed chan struct{} // closed and replaced at each change
}

func newRecent() *recent { return &recent{changed: make(chan struct{})} }

func (r *recent) add(item recentJSON) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append([]recentJSON{item}, r.items[:min(len(r.items), maxRecent-1)]...)
	close(r.changed)
	r.changed = make(chan struct{})
}

// list gives the requests, newest first, and a channel that closes at the next change.
func (r *recent) list() ([]recentJSON, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]recentJSON{}, r.items...), r.changed
}

// record notes how a request ended, for metrics and for the page.
func (s *Server) record(req shared.GenerateRequest, stream bool, start time.Time, results []shared.Measured, err error) {
	s.metrics.observe(stream, results, err)
	item := recentJSON{ID: req.RequestID, Time: start, Model: req.Requirement.Model, Stream: stream, Outcome: "done"}
	if err != nil {
		item.Outcome, item.Error = shared.KindOf(err).String(), err.Error()
		s.log.Debug("request ended", "id", req.RequestID, "outcome", item.Outcome, "error", err)
	} else {
		item.Timings = toTimings(results[0])
	}
	s.recent.add(item)
}
