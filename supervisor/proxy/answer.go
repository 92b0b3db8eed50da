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
	shape   shape
	choices int
	stream  bool
	usage   bool // a streamed answer ends with the token counts
}

// answer runs one parsed request. Its clock starts here: what came before is
// reading the body at the client's own pace.
// What it returns is for the request's span.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, req shared.GenerateRequest, opt answerOptions) outcome {
	start := time.Now()
	release, err := s.takePlace()
	if err != nil {
		return outcome{err: err, status: writeError(w, err)}
	}
	defer release()
	if prefersAsync(r) {
		req.OnMiss = shared.OnMissPending
	}
	req.RequestID = newID()
	a := &answer{
		server: s, opt: opt, start: start,
		head: envelope{
			ID: opt.shape.idPrefix() + req.RequestID, Object: opt.shape.object(opt.stream), Created: start.Unix(),
			Model: req.Requirement.Model,
		},
	}
	if opt.stream {
		a.sse = newSSE(w, s.cfg.WriteTimeout)
	}
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	results, err := a.run(r.Context(), req)
	s.record(req, opt.stream, start, results, err)
	return outcome{parsed: start, id: a.head.ID, results: results, err: err, status: a.end(w, results, err)}
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
	opt    answerOptions
	start  time.Time
	head   envelope
	sse    *sse

	mu     sync.Mutex
	pieces []piece // of each choice: all of it, or, when streamed, only how long it is
}

// run generates all choices side by side. The usual single one needs no further
// goroutine, whose start would be time to the first chunk.
func (a *answer) run(ctx context.Context, req shared.GenerateRequest) ([]shared.Measured, error) {
	a.pieces = make([]piece, a.opt.choices)
	results := make([]shared.Measured, a.opt.choices)
	if a.opt.choices == 1 {
		err := a.one(ctx, 0, req, &results[0])
		return results, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range a.opt.choices {
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
	return a.write(a.chunk(a.opt.shape.finish(index, m.FinishReason), m.Model, m.Identity))
}

func (a *answer) deliver(index int, c shared.Chunk, first bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := &a.pieces[index]
	if a.sse == nil {
		own.text += c.Text
		own.probs = append(own.probs, c.Logprobs...)
		own.calls = append(own.calls, c.ToolCalls...)
		return nil
	}
	p := piece{text: c.Text, probs: c.Logprobs, calls: c.ToolCalls, offset: own.offset}
	for _, t := range c.Logprobs {
		own.offset += characters(t.Bytes)
	}
	if c.Phases != nil {
		a.sse.setTiming(*c.Phases)
	}
	v := a.head
	v.Choices = []any{a.opt.shape.delta(index, p, first)}
	return a.sse.send(v)
}

func (a *answer) write(v envelope) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sse.send(v)
}

// chunk is the envelope of a streamed message once the serving slot is known.
func (a *answer) chunk(choice any, model string, id shared.Identity) envelope {
	head := a.head
	head.Model, head.SystemFingerprint = modelID(model, id), fingerprint(id)
	head.Choices = []any{choice}
	return head
}

// fingerprint stands for the whole identity in OpenAI's field for it.
func fingerprint(id shared.Identity) string {
	h := shared.HashFields("firstframe/fingerprint/v1", id.ModelRevision, id.Precision,
		id.TokenizerRevision, id.LayoutRevision, id.SlotRevision)
	return "fp_" + strings.TrimPrefix(h, "sha256:")[:16]
}

// end writes the one terminal frame and gives the answer's status.
func (a *answer) end(w http.ResponseWriter, results []shared.Measured, err error) int {
	switch {
	case err != nil && (a.sse == nil || !a.sse.started):
		return writeError(w, err)
	case err != nil:
		_, body := describe(err)
		_ = a.sse.send(body) // the stream ends here either way
		return http.StatusOK
	}
	var usage usageJSON
	for _, m := range results {
		usage.add(m.Usage)
	}
	timings := toTimings(results[0])
	if a.sse == nil {
		body := a.chunk(nil, results[0].Model, results[0].Identity)
		body.Choices = make([]any, len(results))
		for i, m := range results {
			body.Choices[i] = a.opt.shape.whole(i, a.pieces[i], m.FinishReason)
		}
		body.Usage, body.Timings = &usage, timings
		writeJSON(w, http.StatusOK, body)
		return http.StatusOK
	}
	last := a.chunk(nil, results[0].Model, results[0].Identity)
	last.Choices, last.Timings = []any{}, timings
	if a.opt.usage {
		last.Usage = &usage
	}
	if a.sse.send(last) == nil {
		_ = a.sse.done()
	}
	return http.StatusOK
}

func newID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}
