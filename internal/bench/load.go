package bench

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// Load is how a target did under load.
type Load struct {
	Case string `json:"case"`
	// Mode is closed when each client waits for its answer before it asks again,
	// open when requests are sent at their times whatever happens to earlier ones.
	Mode          string  `json:"mode"`
	Clients       int     `json:"clients,omitempty"`
	RatePerSecond float64 `json:"rate_per_second,omitempty"`
	Requests      int     `json:"requests"`
	Failed        int     `json:"failed"`
	FirstError    string  `json:"first_error,omitempty"`
	Seconds       float64 `json:"seconds"`
	// TokensPerSecond are those generated, of all requests together.
	TokensPerSecond float64 `json:"tokens_per_second"`
	// Both count from the moment at which the request was meant to be sent.
	FirstChunkMS   Percentiles `json:"first_chunk_ms"`
	FullResponseMS Percentiles `json:"full_response_ms"`
	// FirstChunkHDR is the whole distribution in microseconds, as an HDR histogram
	// in its compressed V2 encoding, base64.
	FirstChunkHDR string `json:"first_chunk_hdr"`
}

// The modes of load.
const (
	Closed = "closed"
	Open   = "open"
)

// Percentiles is a distribution in milliseconds.
type Percentiles struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Histograms count microseconds up to an hour with three digits.
const (
	histogramMax    = int64(time.Hour / time.Microsecond)
	histogramDigits = 3
)

// tally is what one client counted. Each has its own; they are merged at the end.
type tally struct {
	first, full *hdrhistogram.Histogram
	requests    int
	failed      int
	err         error
	tokens      int
}

func newTally() *tally {
	return &tally{
		first: hdrhistogram.New(1, histogramMax, histogramDigits),
		full:  hdrhistogram.New(1, histogramMax, histogramDigits),
	}
}

// add counts one answer; late is how long after its time it was sent.
func (t *tally) add(s Sample, late time.Duration, err error) {
	t.requests++
	if err != nil {
		t.failed++
		if t.err == nil {
			t.err = err
		}
		return
	}
	t.tokens += s.Tokens
	record(t.first, late+s.FirstChunk)
	record(t.full, late+s.Full)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	us := min(max(int64(d/time.Microsecond), 1), histogramMax)
	_ = h.RecordValue(us) // it is in range
}

func (t *tally) merge(o *tally) {
	t.first.Merge(o.first)
	t.full.Merge(o.full)
	t.requests += o.requests
	t.failed += o.failed
	t.tokens += o.tokens
	if t.err == nil {
		t.err = o.err
	}
}

func (t *tally) load(name, mode string, took time.Duration) (Load, error) {
	encoded, err := t.first.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return Load{}, err
	}
	l := Load{
		Case: name, Mode: mode, Requests: t.requests, Failed: t.failed, Seconds: took.Seconds(),
		FirstChunkMS: percentiles(t.first), FullResponseMS: percentiles(t.full),
		FirstChunkHDR: base64.StdEncoding.EncodeToString(encoded),
	}
	if took > 0 {
		l.TokensPerSecond = float64(t.tokens) / took.Seconds()
	}
	if t.err != nil {
		l.FirstError = t.err.Error()
	}
	return l, nil
}

func percentiles(h *hdrhistogram.Histogram) Percentiles {
	if h.TotalCount() == 0 {
		return Percentiles{}
	}
	at := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1000 }
	return Percentiles{
		Min: float64(h.Min()) / 1000, Median: at(50), P90: at(90), P95: at(95), P99: at(99), Max: float64(h.Max()) / 1000,
	}
}

// ClosedLoop has clients ask the questions, each one its next after its answer.
// Failed answers are counted; only the end of ctx is an error.
func ClosedLoop(ctx context.Context, name string, target Target, clients int, questions []Question) (Load, error) {
	next := make(chan Question)
	tallies := make([]*tally, clients)
	group, running := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range clients {
		tallies[i] = newTally()
		group.Go(func() error {
			for q := range next {
				s, err := target.Ask(running, q)
				if running.Err() != nil {
					return context.Cause(running)
				}
				tallies[i].add(s, 0, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(next)
		for _, q := range questions {
			select {
			case next <- q:
			case <-running.Done():
				return context.Cause(running)
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return Load{}, err
	}
	took := time.Since(start)
	all := newTally()
	for _, t := range tallies {
		all.merge(t)
	}
	l, err := all.load(name, Closed, took)
	l.Clients = clients
	return l, err
}

// OpenLoop sends each question at its time, whether or not earlier ones were
// answered: times are apart as those of independent clients are, on average by
// 1/rate. An answer counts from the time at which its question was due, so that
// a target that stalls is charged for everybody who would have waited.
func OpenLoop(ctx context.Context, name string, target Target, rate float64, seed uint64, questions []Question) (Load, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	group, running := errgroup.WithContext(ctx)
	results := make(chan func(*tally), len(questions))
	start := time.Now()
	due := start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, q := range questions {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-running.Done():
			_ = group.Wait() // the end of ctx says more
			return Load{}, context.Cause(running)
		}
		intended := due
		group.Go(func() error {
			late := time.Since(intended)
			s, err := target.Ask(running, q)
			if running.Err() != nil {
				return context.Cause(running)
			}
			results <- func(t *tally) { t.add(s, late, err) }
			return nil
		})
		due = due.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
	}
	if err := group.Wait(); err != nil {
		return Load{}, err
	}
	took := time.Since(start)
	close(results)
	all := newTally()
	for count := range results {
		count(all)
	}
	l, err := all.load(name, Open, took)
	l.RatePerSecond = rate
	return l, err
}
