package slotworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// TestChunksKeepTheBeat has a model that is faster than what anybody can see, and
// one that is slower.
func TestChunksKeepTheBeat(t *testing.T) {
	const tokens = 64
	for _, c := range []struct {
		token  time.Duration
		chunks func(n int) bool
	}{
		{time.Millisecond, func(n int) bool { return n <= 2+int(tokens*time.Millisecond/chunkBeat) }},
		{chunkBeat + time.Millisecond, func(n int) bool { return n == tokens }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlot(t)
			defer s.end()
			s.prepare()
			m := &s.engine.model
			m.answer = func([]int32) int32 { return 'x' }
			m.decodeHook = func([]Row) error { time.Sleep(c.token); return nil }
			start := time.Now()
			var came []time.Duration // when each chunk did
			got := s.generate(t.Context(), "hello", tokens, func(c shared.Chunk) error {
				came = append(came, time.Since(start))
				return nil
			})
			if got.err != nil || len(got.text) != tokens {
				t.Fatalf("%q, %v", got.text, got.err)
			}
			if !c.chunks(len(came)) {
				t.Errorf("%d chunks for %d tokens of %v each", len(came), tokens, c.token)
			}
			// Neither the first chunk nor the end waits for a beat.
			if came[0] != c.token || time.Since(start) != tokens*c.token {
				t.Errorf("the first chunk came after %v and the end after %v, with %v a token", came[0], time.Since(start), c.token)
			}
		})
	}
}
