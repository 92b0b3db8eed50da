package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/firstframe/firstframe/shared"
)

// sse writes server-sent events: headers with the first event, one flush for
// each. A client that does not read loses its stream at the write deadline.
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

func (s *sse) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.raw(b)
}

func (s *sse) done() error { return s.raw([]byte("[DONE]")) }

func (s *sse) raw(data []byte) error {
	if s.err != nil {
		return s.err
	}
	if err := s.write(data); err != nil {
		s.err = shared.Errorf(shared.KindCancelled, "cannot write to the client: %w", err)
	}
	return s.err
}

func (s *sse) write(data []byte) error {
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
	s.buf = append(s.buf[:0], s.frame.before...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, s.frame.after...)
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.ctl.Flush()
}
