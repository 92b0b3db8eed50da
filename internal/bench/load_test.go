package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// oneAtATime answers one question after the other, each in the same time, apart
// from one stall. Inside a bubble that time passes at once.
type oneAtATime struct {
	// turn has room for the one that is answered. A mutex would hold the bubble's
	// clock.
	turn   chan struct{}
	asked  int
	takes  time.Duration
	stalls map[int]time.Duration // by number of the question
	fails  map[int]error
}

func (o *oneAtATime) Ask(context.Context, Question) (Sample, error) {
	start := time.Now()
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	o.asked++
	time.Sleep(o.takes + o.stalls[o.asked])
	took := time.Since(start)
	return Sample{FirstChunk: took, Full: took, Tokens: 4}, o.fails[o.asked]
}

func newOneAtATime(takes time.Duration) *oneAtATime {
	return &oneAtATime{turn: make(chan struct{}, 1), takes: takes}
}

func questions(n int) []Question { return make([]Question, n) }

// A target that stalls for a second is charged once by clients that wait for
// it, and by everybody who would have come meanwhile in an open loop.
func TestOpenLoopHasNoCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		stalling := func() *oneAtATime {
			o := newOneAtATime(time.Millisecond)
			o.stalls = map[int]time.Duration{20: time.Second}
			return o
		}
		closed, err := ClosedLoop(t.Context(), "x", stalling(), 1, questions(n))
		if err != nil {
			t.Fatal(err)
		}
		open, err := OpenLoop(t.Context(), "x", stalling(), 100, 7, questions(n))
		if err != nil {
			t.Fatal(err)
		}
		if closed.Requests != n || open.Requests != n || closed.Failed+open.Failed > 0 {
			t.Fatalf("%+v, %+v", closed, open)
		}
		// At 100 a second about 100 of 200 questions come during the second.
		if closed.FirstChunkMS.P95 > 2 || closed.FirstChunkMS.Max < 1000 {
			t.Errorf("the closed loop saw %+v", closed.FirstChunkMS)
		}
		if open.FirstChunkMS.P95 < 700 || open.FirstChunkMS.Max < 1000 || open.FirstChunkMS.Min > 2 {
			t.Errorf("the open loop saw %+v", open.FirstChunkMS)
		}
	})
}

// What a generator sends late counts from the time at which it was due.
func TestLatenessCounts(t *testing.T) {
	a := newTally()
	a.add(Sample{FirstChunk: 5 * time.Millisecond, Full: 9 * time.Millisecond}, 20*time.Millisecond, nil)
	l, err := a.load("x", Open, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if l.FirstChunkMS.Max < 24.9 || l.FirstChunkMS.Max > 25.1 || l.FullResponseMS.Max < 28.9 || l.FullResponseMS.Max > 29.1 {
		t.Errorf("counted as %+v and %+v", l.FirstChunkMS, l.FullResponseMS)
	}
}

// The times of an open loop are the same for the same seed, and on average those
// of the rate.
func TestOpenLoopTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := func(seed uint64) time.Duration {
			start := time.Now()
			if _, err := OpenLoop(t.Context(), "x", newOneAtATime(0), 50, seed, questions(500)); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		a, again, b := took(1), took(1), took(2)
		if a != again || a == b {
			t.Errorf("seed 1 took %v and %v, seed 2 %v", a, again, b)
		}
		if a < 8*time.Second || a > 12*time.Second {
			t.Errorf("500 questions at 50 a second took %v", a)
		}
	})
}

func TestClosedLoopSpreadsQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOneAtATime(10 * time.Millisecond)
		o.fails = map[int]error{3: errors.New("no")}
		l, err := ClosedLoop(t.Context(), "x", o, 4, questions(20))
		if err != nil {
			t.Fatal(err)
		}
		if l.Requests != 20 || l.Failed != 1 || l.FirstError != "no" || l.Clients != 4 {
			t.Errorf("%+v", l)
		}
		if l.Seconds != 0.2 || l.TokensPerSecond != 19*4/0.2 {
			t.Errorf("%v s, %v tokens/s", l.Seconds, l.TokensPerSecond)
		}
		// Four clients of a target that serves one at a time wait for four each.
		if m := l.FirstChunkMS.Median; m < 39 || m > 41 {
			t.Errorf("median %v ms", m)
		}
	})
}

func TestLoadsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 55*time.Millisecond)
		defer stop()
		o := newOneAtATime(10 * time.Millisecond)
		if _, err := ClosedLoop(ctx, "x", o, 2, questions(100)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed: %v", err)
		}
		ctx, stop = context.WithTimeout(t.Context(), 55*time.Millisecond)
		defer stop()
		if _, err := OpenLoop(ctx, "x", o, 100, 1, questions(100)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open: %v", err)
		}
	})
}

// Merging tallies gives what one tally would have counted, and the encoded
// histogram holds it.
func TestTalliesMerge(t *testing.T) {
	one, a, b := newTally(), newTally(), newTally()
	for i := range 1000 {
		s := Sample{FirstChunk: time.Duration(i+1) * 137 * time.Microsecond, Full: time.Second, Tokens: 2}
		one.add(s, 0, nil)
		[]*tally{a, b}[i%2].add(s, 0, nil)
	}
	b.add(Sample{}, 0, errors.New("lost"))
	all := newTally()
	all.merge(a)
	all.merge(b)
	want, err := one.load("x", Closed, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all.load("x", Closed, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 1001 || got.Failed != 1 || got.FirstError != "lost" {
		t.Errorf("%+v", got)
	}
	if got.FirstChunkMS != want.FirstChunkMS || got.FirstChunkHDR != want.FirstChunkHDR || got.TokensPerSecond != want.TokensPerSecond {
		t.Errorf("merged %+v, at once %+v", got, want)
	}
	data, err := base64.StdEncoding.DecodeString(got.FirstChunkHDR)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hdrhistogram.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if h.TotalCount() != 1000 || float64(h.ValueAtQuantile(95))/1000 != got.FirstChunkMS.P95 {
		t.Errorf("decoded %d values, p95 %d µs", h.TotalCount(), h.ValueAtQuantile(95))
	}
}

// A duration beyond an hour, or of nothing at all, is counted at the bounds.
func TestRecordStaysInRange(t *testing.T) {
	h := newTally().first
	record(h, 0)
	record(h, 5*time.Hour)
	if h.TotalCount() != 2 || h.Min() != 1 || h.Max() < histogramMax {
		t.Errorf("%d values from %d to %d", h.TotalCount(), h.Min(), h.Max())
	}
}
