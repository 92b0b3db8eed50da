package slotworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// TestPhases gives each phase a delay of its own and expects it there, exactly,
// and nowhere else.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		m := &s.engine.model
		m.tokenizeHook = func(string) { time.Sleep(3 * time.Millisecond) }
		m.tokensHook = func() { time.Sleep(5 * time.Millisecond) }
		m.decodeHook = func([]Row) error { time.Sleep(7 * time.Millisecond); return nil }
		m.sampleHook = func([]int32) { time.Sleep(11 * time.Millisecond) }
		start := time.Now()
		var first shared.Phases
		var seen time.Duration
		got := s.generate(t.Context(), "hello", 4, func(c shared.Chunk) error {
			if c.Phases != nil {
				first, seen = *c.Phases, time.Since(start)
			}
			return nil
		})
		if got.err != nil {
			t.Fatal(got.err)
		}
		want := shared.Phases{
			SlotActivation: 5 * time.Millisecond, ContextLookup: 3 * time.Millisecond,
			Prefill: 7 * time.Millisecond, DecodeFirstToken: 11 * time.Millisecond,
		}
		if first != want || got.result.Phases != want {
			t.Errorf("got %+v and %+v, want %+v", first, got.result.Phases, want)
		}
		if seen != want.Sum() {
			t.Errorf("the first chunk came after %s, the phases say %s", seen, want.Sum())
		}
		if got.result.Prompt != 7*time.Millisecond || got.result.Predicted != 11*time.Millisecond+3*18*time.Millisecond {
			t.Errorf("prompt %s, predicted %s", got.result.Prompt, got.result.Predicted)
		}

		// A request that waits for the sequence waits in the queue.
		ended := make(chan answer, 1)
		go func() { ended <- s.generate(t.Context(), "hello", 4, nil) }()
		time.Sleep(4 * time.Millisecond)
		second := s.generate(t.Context(), "hello", 4, nil)
		// Both go on in the sequence that held the prompt, whose tokens are counted
		// before and after it is cut. The first one takes 3+5+5+4×(7+11)+5 = 90 ms, the
		// second has tokenized after 7.
		want.Queue, want.SlotActivation = 83*time.Millisecond, 10*time.Millisecond
		if second.result.Phases != want {
			t.Errorf("got %+v, want %+v", second.result.Phases, want)
		}
		<-ended
	})
}

// TestFirstVisibleText: the phase lasts until there is something to see.
func TestFirstVisibleText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlot(t)
		defer s.end()
		s.prepare()
		m := &s.engine.model
		fox := []byte("🦊")
		m.piece = func(token int32) []byte { return []byte{byte(token)} }
		prompt := len("hello") + 1
		m.answer = func(tokens []int32) int32 { return int32(fox[(len(tokens)-prompt)%len(fox)]) }
		m.decodeHook = func([]Row) error { time.Sleep(7 * time.Millisecond); return nil }
		var phases []shared.Phases
		got := s.generate(t.Context(), "hello", 8, func(c shared.Chunk) error {
			if c.Phases != nil {
				phases = append(phases, *c.Phases)
			}
			return nil
		})
		if got.text != "🦊🦊" || len(phases) != 1 || phases[0].DecodeFirstToken != 3*7*time.Millisecond {
			t.Errorf("got %q, phases %+v, %v", got.text, phases, got.err)
		}
	})
}
