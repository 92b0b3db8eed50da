package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firstframe/firstframe/shared"
)

type answerOptions struct {
	form    func(answerHead) form
	choices int
	stream  bool
}

// answer runs one parsed request. Its clock starts here: what came before is
// reading the body at the client's own pace.
// What it returns is for the request's span.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, req shared.GenerateRequest, opt answerOptions) outcome {
	start := time.Now()
	release, err := s.takePlace()
	if err != nil {
		return outcome{err: err, status: refuse(w, r, err)}
	}
	defer release()
	if prefersAsync(r) {
		req.OnMiss = shared.OnMissPending
	}
	req.RequestID = newID()
	a := &answer{
		server: s, start: start, pieces: make([]piece, opt.choices),
		form: opt.form(answerHead{requestID: req.RequestID, created: start, model: askedModel(req.Requirement), stream: opt.stream}),
	}
	if opt.stream {
		a.sse = newSSE(w, s.cfg.WriteTimeout)
	}
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	results, err := a.run(r.Context(), req)
	s.record(req, opt.stream, start, results, err)
	return outcome{parsed: start, id: a.form.id(), results: results, err: err, status: a.end(w, r, results, err)}
}

func prefersAsync(r *http.Request) bool {
	for _, v := range r.Header.Values("Prefer") {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), "respond-async") {
				return true
			}
		}
	}
	return false
}

// answer is one request under way. Several choices of one request share the
// connection; mu orders their writes.
type answer struct {
	server *Server
	start  time.Time
	sse    *sse // nil when the answer is not streamed

	mu     sync.Mutex
	form   form
	pieces []piece // of each choice: all of it, or, when streamed, only how long it is
}

// run generates all choices side by side. The usual single one needs no further
// goroutine, whose start would be time to the first chunk.
func (a *answer) run(ctx context.Context, req shared.GenerateRequest) ([]shared.Measured, error) {
	results := make([]shared.Measured, len(a.pieces))
	if len(results) == 1 {
		err := a.one(ctx, 0, req, &results[0])
		return results, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range results {
		choice := req
		if choice.Sampling.Seed != 0 {
			choice.Sampling.Seed += uint32(i)
		}
		group.Go(func() error { return a.one(ctx, i, choice, &results[i]) })
	}
	return results, group.Wait()
}

// one generates one choice.
func (a *answer) one(ctx context.Context, index int, req shared.GenerateRequest, result *shared.Measured) error {
	first := true
	m, err := shared.GenerateAtEdge(ctx, a.server.frontend, a.start, req, func(c shared.Chunk) error {
		if !c.HasContent() && len(c.Logprobs) == 0 {
			return nil
		}
		defer func() { first = false }()
		return a.deliver(index, c, first)
	})
	*result = m
	if err != nil || a.sse == nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sse.events(a.form.finish(index, m)...)
}

func (a *answer) deliver(index int, c shared.Chunk, first bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := &a.pieces[index]
	if a.sse == nil {
		own.add(c)
		return nil
	}
	p := piece{first: first, offset: own.offset}
	p.add(c)
	for _, t := range c.Logprobs {
		own.offset += characters(t.Bytes)
	}
	if c.Phases != nil {
		a.sse.setTiming(*c.Phases)
	}
	return a.sse.events(a.form.delta(index, p)...)
}

// end writes the one terminal frame and gives the answer's status.
func (a *answer) end(w http.ResponseWriter, r *http.Request, results []shared.Measured, err error) int {
	switch {
	case err != nil && (a.sse == nil || !a.sse.started):
		return refuse(w, r, err)
	case err != nil:
		_ = a.sse.events(a.form.failed(err)...) // the stream ends here either way
	case a.sse == nil:
		writeJSON(w, http.StatusOK, a.form.whole(results, a.pieces))
	default:
		_ = a.sse.events(a.form.end(results)...)
	}
	return http.StatusOK
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}
