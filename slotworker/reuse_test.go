package slotworker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// On the fake model, pages have 16 tokens and chunks 16 or what the test says.

func TestPagesSaveThePrefill(t *testing.T) {
	b := newBench(t, &fakeModel{}, 1, 256, 32, 0)
	defer b.end(t)
	prompt := promptOf(100, 1)
	other := append(slices.Clone(prompt[:70]), promptOf(20, 99)...)
	ask := func(prompt []int32, cached int, reason pages.Reason, diverged int) []int32 {
		t.Helper()
		before := b.scheduler.cfg.kept.prefilled.Load()
		got := b.run(t.Context(), order{prompt: prompt, max: 20})
		if got.err != nil || !slices.Equal(got.tokens, b.model.solo(prompt, 20)) {
			t.Errorf("got %v, %v", got.tokens, got.err)
		}
		r := got.result
		if r.Usage.CachedTokens != cached || r.MissReason != string(reason) || r.DivergedAtToken != diverged {
			t.Errorf("%d cached, %q, diverged at %d; want %d, %q, %d", r.Usage.CachedTokens, r.MissReason, r.DivergedAtToken, cached, reason, diverged)
		}
		if n := b.scheduler.cfg.kept.prefilled.Load() - before; n != int64(len(prompt)-cached) {
			t.Errorf("%d tokens were computed, %d were not cached", n, len(prompt)-cached)
		}
		return append(slices.Clone(prompt), got.tokens...)
	}
	turn := ask(prompt, 0, pages.ReasonTokenHash, 0)
	ask(prompt, 99, "", 0)
	ask(other, 64, pages.ReasonTokenHash, 70)
	// The next turn of a conversation finds the answer too, but for its last token,
	// which was never fed back.
	ask(append(turn, 5, 6, 7), 119, pages.ReasonTokenHash, 0)
	// The one sequence was left for the other prompt, and what it held was restored.
	if st := b.scheduler.pageStats(); st.Off != "" || st.Host.Pages == 0 || st.HitDeviceTokens != 99+64 || st.HitHostTokens != 119 ||
		st.MissTokens[string(pages.ReasonTokenHash)] == 0 || st.IdleTokens != 142 || st.Device != (shared.PageTier{Pages: 8, Bytes: 8 * 142}) {
		t.Errorf("%+v", st)
	}
}

func TestShortRestoreComputesAll(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 1, 256, 32, 0)
	defer b.end(t)
	prompt := promptOf(100, 1)
	_ = b.run(t.Context(), order{prompt: prompt, max: 3})
	_ = b.run(t.Context(), order{prompt: promptOf(50, 7), max: 3}) // takes the sequence
	model.restoreHook = func(n int) int { return n - 1 }
	got := b.run(t.Context(), order{prompt: prompt, max: 3})
	if got.err != nil || !slices.Equal(got.tokens, model.solo(prompt, 3)) || got.result.MissReason != string(pages.ReasonRestoreShort) || got.result.Usage.CachedTokens != 0 {
		t.Errorf("got %v, %+v, %v", got.tokens, got.result, got.err)
	}
	// The pages were thrown away and computed anew.
	model.restoreHook = nil
	_ = b.run(t.Context(), order{prompt: promptOf(50, 7), max: 3})
	if got := b.run(t.Context(), order{prompt: prompt, max: 3}); got.result.Usage.CachedTokens != 99 {
		t.Errorf("afterwards %+v", got.result)
	}
}

func TestPagesOff(t *testing.T) {
	for name, info := range map[string]ModelInfo{
		"recurrent": {Recurrent: true}, "hybrid": {Hybrid: true}, "window": {SWA: 16},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &fakeModel{info: info}, 2, 128, 16, 8)
			defer b.end(t)
			for range 2 {
				got := b.run(t.Context(), order{prompt: promptOf(60, 1), max: 3})
				if got.err != nil || got.result.MissReason != string(pages.ReasonArchNotReusable) || got.result.Usage.CachedTokens != 0 {
					t.Errorf("%+v, %v", got.result, got.err)
				}
			}
			if st := b.scheduler.pageStats(); st.Off == "" {
				t.Errorf("%+v", st)
			}
		})
	}
	t.Run("unproven", func(t *testing.T) {
		b := newBench(t, &fakeModel{restoreHook: func(n int) int { return n / 2 }}, 2, 128, 16, 8)
		defer b.end(t)
		got := b.run(t.Context(), order{prompt: promptOf(60, 1), max: 3})
		if got.err != nil || got.result.MissReason != string(pages.ReasonArchNotReusable) || b.scheduler.store.Off() == "" {
			t.Errorf("%+v, %v", got.result, got.err)
		}
	})
}

// TestCommonTrunkIsComputedOnce sends requests that share a trunk while the
// first of them stands in its prefill.
func TestCommonTrunkIsComputedOnce(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader cancelled %v", cancelled), func(t *testing.T) {
			const others, trunk, tail, chunk = 15, 1024, 8, 64
			model := &fakeModel{}
			b := newBench(t, model, 4, 2048, chunk, 32)
			defer b.end(t)
			b.scheduler.cfg.kept.prefilled.Store(0)
			entered, leave := make(chan struct{}), make(chan struct{})
			model.decodeHook = func(rows []Row) error {
				if rows[0].Pos == trunk/2 { // half-way; only the leader computes it
					model.decodeHook = nil
					close(entered)
					<-leave
				}
				return nil
			}
			prompt := func(i int) []int32 { return append(promptOf(trunk, 1), promptOf(tail, int32(50+i))...) }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				got := b.run(ctx, order{prompt: prompt(0), max: 4})
				if cancelled != errors.Is(got.err, context.Canceled) {
					t.Errorf("the leader: %v", got.err)
				}
			})
			wait(t, entered)
			for i := 1; i <= others; i++ {
				wg.Go(func() {
					got := b.run(t.Context(), order{prompt: prompt(i), max: 4})
					if got.err != nil || !slices.Equal(got.tokens, model.solo(prompt(i), 4)) {
						t.Errorf("request %d: %v, %v", i, got.tokens, got.err)
					}
				})
			}
			eventually(t, func() bool { return b.scheduler.inSystem.Load() == others+1 })
			if cancelled {
				cancel()
			}
			close(leave)
			wg.Wait()
			want := int64(trunk + (others+1)*tail)
			if cancelled {
				want = trunk + others*tail // what the leader computed is kept
			}
			if n := b.scheduler.cfg.kept.prefilled.Load(); n != want {
				t.Errorf("%d prompt tokens were computed, want %d", n, want)
			}
		})
	}
}

// TestFollowersOutliveTheirLeaders: whatever is cancelled or fails, everybody
// else gets the answer.
func TestFollowersOutliveTheirLeaders(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		model := &fakeModel{}
		b := newBench(t, model, 2, 512, 16, 64)
		failAt := random.IntN(60)
		step := 0
		model.decodeHook = func([]Row) error {
			if step++; step == failAt {
				return ErrDecodeFailed
			}
			return nil
		}
		var wg sync.WaitGroup
		for i := range 12 {
			prompt := append(promptOf(16*random.IntN(8), 1), promptOf(1+random.IntN(40), int32(i%3))...)
			cancels := random.IntN(3) == 0
			after := random.IntN(6)
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if cancels && after == 0 {
					cancel()
				}
				n := 0
				got := b.run(ctx, order{prompt: prompt, max: 8, emit: func(shared.Chunk) error {
					if n++; cancels && n == after {
						cancel()
					}
					return nil
				}})
				if problem := judge(got, model, prompt, 8, 512, cancels); problem != "" {
					t.Error(problem)
				}
			})
		}
		wg.Wait()
		b.end(t)
	}
}
