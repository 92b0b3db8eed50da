package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/firstframe/firstframe/shared"
)

// event is a server-sent event. The APIs of which each event says its type in its
// data as well have names.
type event struct {
	name string
	data any
}

// streamDone ends the streams of completions; it is no JSON.
const streamDone verbatim = "[DONE]"

type verbatim string

// sse writes server-sent events: headers with the first one, and a flush for each
// as it comes. A client that does not read loses its stream at the write deadline.
type sse struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration
	frame   frame
	started bool
	err     error // of the first write that failed
	buf     []byte
}

// frame is how a stream marks where its messages begin and end.
type frame struct{ media, before, after string }

func newSSE(w http.ResponseWriter, timeout time.Duration) *sse {
	return &sse{w: w, ctl: http.NewResponseController(w), timeout: timeout, frame: frame{"text/event-stream", "data: ", "\n\n"}}
}

// newLines makes a stream of one JSON value a line.
func newLines(w http.ResponseWriter, timeout time.Duration) *sse {
	s := newSSE(w, timeout)
	s.frame = frame{"application/x-ndjson", "", "\n"}
	return s
}

// setTiming puts the phases known before the first flush into a header.
func (s *sse) setTiming(p shared.Phases) {
	if s.started {
		return
	}
	var parts []string
	for _, d := range p.List() {
		if d.Phase == shared.PhaseFirstChunkFlush || d.Phase == shared.PhaseOther {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s;dur=%.3f", d.Phase, shared.Milliseconds(d.Duration)))
	}
	s.w.Header().Set("Server-Timing", strings.Join(parts, ", "))
}

// send writes an event without a name.
func (s *sse) send(v any) error { return s.events(event{data: v}) }

// events writes events that come at the same moment, with one flush.
func (s *sse) events(all ...event) error {
	if s.err != nil || len(all) == 0 {
		return s.err
	}
	s.buf = s.buf[:0]
	for _, e := range all {
		data, literal := e.data.(verbatim)
		if !literal {
			b, err := json.Marshal(e.data)
			if err != nil {
				return err
			}
			data = verbatim(b)
		}
		if e.name != "" {
			s.buf = append(append(append(s.buf, "event: "...), e.name...), '\n')
		}
		s.buf = append(append(append(s.buf, s.frame.before...), data...), s.frame.after...)
	}
	if err := s.write(); err != nil {
		s.err = shared.Errorf(shared.KindCancelled, "cannot write to the client: %w", err)
	}
	return s.err
}

func (s *sse) write() error {
	if err := s.ctl.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", s.frame.media)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.ctl.Flush()
}
