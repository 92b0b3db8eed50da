package supervisor

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// keptRequests is how many requests that have ended are remembered.
const keptRequests = 128

// activity remembers the latest requests. Its goroutine owns the memory; a
// request leaves its record there and goes.
type activity struct {
	ended chan endedRequest
	asks  chan activityAsk

	number uint64
	latest []endedRequest // at most keptRequests, oldest first
}

type endedRequest struct {
	shared.RequestRecord
	at time.Time
}

type activityAsk struct {
	after  uint64
	answer chan<- []shared.RequestRecord
}

func newActivity() *activity {
	return &activity{ended: make(chan endedRequest, 64), asks: make(chan activityAsk)}
}

func (a *activity) run(ctx context.Context) {
	for {
		select {
		case r := <-a.ended:
			a.keep(r)
		case q := <-a.asks:
			q.answer <- a.after(q.after)
		case <-ctx.Done():
			return
		}
	}
}

func (a *activity) keep(r endedRequest) {
	a.number++
	r.Number = a.number
	if len(a.latest) == keptRequests {
		a.latest = append(a.latest[:0], a.latest[1:]...)
	}
	a.latest = append(a.latest, r)
}

func (a *activity) after(number uint64) []shared.RequestRecord {
	var records []shared.RequestRecord
	for _, r := range a.latest {
		if r.Number > number {
			r.Ago = time.Since(r.at)
			records = append(records, r.RequestRecord)
		}
	}
	return records
}

// Activity gives the requests with a number above after that ended lately.
func (s *Supervisor) Activity(ctx context.Context, after uint64) (shared.Activity, error) {
	answer := make(chan []shared.RequestRecord, 1)
	select {
	case s.activity.asks <- activityAsk{after: after, answer: answer}:
	case <-ctx.Done():
		return shared.Activity{}, shared.AsError(context.Cause(ctx), "activity", "")
	case <-s.ctx.Done():
		return shared.Activity{}, shared.AsError(shuttingDown(), "activity", "")
	}
	res := shared.Activity{Requests: <-answer, Tokens: map[string]int64{}} // whoever takes a question answers it
	for _, d := range s.registry.current.Load().slots {
		res.Tokens[d.slot.spec.SlotID] = d.slot.tokens.Load()
	}
	return res, nil
}

// remember leaves the record of a request that has ended.
func (s *Supervisor) remember(r shared.RequestRecord) {
	select {
	case s.activity.ended <- endedRequest{r, time.Now()}:
		s.watchers.notify()
	case <-s.ctx.Done():
	}
}

// record is what the supervisor saw of a request.
func (st *stream) record(req shared.GenerateRequest, arrived time.Time, res shared.Result, err error) shared.RequestRecord {
	r := shared.RequestRecord{
		RequestID: req.RequestID, SlotID: res.SlotID, Model: res.Model, SlotHit: res.SlotHit, Usage: res.Usage,
		Outcome: shared.OutcomeDone, FullResponse: time.Since(arrived),
	}
	if st.text {
		r.FirstChunk = st.firstText.Sub(arrived)
		r.Phases = st.known.Close(r.FirstChunk)
	}
	if err != nil {
		e := shared.AsError(err, "", "")
		r.SlotID, r.Outcome, r.Error = e.SlotID, shared.OutcomeError, e.Kind.String()
		if e.Kind == shared.KindCancelled {
			r.Outcome = shared.OutcomeCancelled
		}
	}
	return r
}
