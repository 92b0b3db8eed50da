package slotworker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/firstframe/firstframe/shared"
)

// TestEveryRequestEndsOnce runs random requests against random cancels and
// engine failures: each ends in exactly one way, what it got is what the model
// says when alone, and nothing is left.
func TestEveryRequestEndsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		model := &fakeModel{}
		const tokens = 64
		sequences := rapid.IntRange(1, 4).Draw(rt, "sequences")
		b := newBench(t, model, sequences, tokens, rapid.IntRange(1, 20).Draw(rt, "chunk"), rapid.IntRange(0, 4).Draw(rt, "queue"))
		failing := rapid.SliceOfN(rapid.IntRange(0, 120), 0, 6).Draw(rt, "failing steps")
		step := 0
		model.decodeHook = func([]Row) error {
			step++
			if slices.Contains(failing, step) {
				return []error{ErrNoKVSpace, ErrDecodeAborted, ErrDecodeFailed}[step%3]
			}
			return nil
		}
		var wg sync.WaitGroup
		for i := range rapid.IntRange(1, 12).Draw(rt, "requests") {
			prompt := promptOf(rapid.IntRange(1, tokens+2).Draw(rt, "prompt"), int32(i))
			most := rapid.IntRange(0, 40).Draw(rt, "max")
			cancelAfter := rapid.IntRange(-1, 10).Draw(rt, "cancel after chunks")
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if cancelAfter == 0 {
					cancel()
				}
				chunks := 0
				got := b.run(ctx, order{prompt: prompt, max: most, emit: func(shared.Chunk) error {
					if chunks++; chunks == cancelAfter {
						cancel()
					}
					return nil
				}})
				if problem := judge(got, model, prompt, most, tokens, cancelAfter >= 0); problem != "" {
					t.Errorf("prompt %d, max %d: %s", len(prompt), most, problem)
				}
			})
		}
		wg.Wait()
		b.end(t)
	})
}

// judge says what is wrong with an answer.
func judge(got answer, model *fakeModel, prompt []int32, most, contextTokens int, cancels bool) string {
	room := contextTokens - len(prompt)
	if most > 0 {
		room = min(room, most)
	}
	switch kind := shared.KindOf(got.err); {
	case got.err == nil:
		if want := model.solo(prompt, room); !slices.Equal(got.tokens, want) {
			return fmt.Sprintf("got %v, want %v", got.tokens, want)
		}
		return ""
	case kind == shared.KindContextTooLong:
		if len(prompt) < contextTokens {
			return got.err.Error()
		}
		return ""
	case kind == shared.KindCancelled && !cancels:
		return "cancelled without a cause"
	case kind == shared.KindCancelled, kind == shared.KindEngine, kind == shared.KindBusy:
		if want := model.solo(prompt, max(room, 0)); !slices.Equal(got.tokens, want[:min(len(want), len(got.tokens))]) {
			return fmt.Sprintf("before the end it got %v, want the start of %v", got.tokens, want)
		}
		return ""
	default:
		return got.err.Error()
	}
}
