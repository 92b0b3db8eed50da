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
	ring    [maxRecent]recentJSON
	count   int           // of all requests ever
	changed chan struct{} // closed and replaced at each change; nil while nobody waits
}

func (r *recent) add(item recentJSON) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.count%maxRecent] = item
	r.count++
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// since gives the requests after the first count ones, newest first and as far as
// they are still known, how many there are by now, and a channel that closes at
// the next change.
func (r *recent) since(count int) ([]recentJSON, int, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var items []recentJSON
	for i := r.count - 1; i >= max(count, r.count-maxRecent); i-- {
		items = append(items, r.ring[i%maxRecent])
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return items, r.count, r.changed
}

// record notes how a request ended, for metrics and for the page.
func (s *Server) record(req shared.GenerateRequest, stream bool, start time.Time, results []shared.Measured, err error) {
	s.metrics.observe(stream, results, err)
	item := recentJSON{ID: req.RequestID, Time: start, Model: req.Requirement.Model, Stream: stream, Outcome: "done"}
	if err != nil {
		item.Outcome, item.Error = shared.KindOf(err).String(), err.Error()
		s.log.Debug("request ended", "id", req.RequestID, "outcome", item.Outcome, "error", err)
	} else {
		item.Model, item.Timings = modelID(results[0].Model, results[0].Identity), toTimings(results[0])
	}
	s.recent.add(item)
}
