package slotworker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// asked runs one request and wants the right answer.
func (b *bench) asked(t *testing.T, prompt []int32, n int) (shared.Result, []int32) {
	t.Helper()
	got := b.run(t.Context(), order{prompt: prompt, max: n})
	if got.err != nil || !slices.Equal(got.tokens, b.model.solo(prompt, n)) {
		t.Errorf("got %v, %v", got.tokens, got.err)
	}
	return got.result, append(slices.Clone(prompt), got.tokens...)
}

// The next turn of a conversation goes on in the sequence of the last one; others
// take the sequence that has been idle for the longest time.
func TestTurnsGoOnInPlace(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 3, 512, 32, 8)
	defer b.end(t)
	used := make(chan int32, 1)
	model.decodeHook = func(rows []Row) error {
		select {
		case used <- rows[0].Seq:
		default:
		}
		return nil
	}
	talks := make([][]int32, 3)
	where := make([]int32, 3)
	ask := func(talk int, more []int32) shared.Result {
		var res shared.Result
		res, talks[talk] = b.asked(t, append(talks[talk], more...), 5)
		where[talk] = <-used
		return res
	}
	for i := range talks {
		ask(i, promptOf(40, int32(10*i)))
	}
	first := slices.Clone(where)
	if slices.Sort(first); !slices.Equal(first, []int32{0, 1, 2}) {
		t.Fatalf("three conversations ran in the sequences %v", where)
	}
	for turn := range 4 {
		for _, i := range []int{2, 0, 1} {
			before, held := where[i], len(talks[i])-1
			if res := ask(i, promptOf(7, int32(turn))); where[i] != before || res.Usage.CachedTokens != held {
				t.Errorf("turn %d of %d: in sequence %d after %d, %d cached instead of %d", turn, i, where[i], before, res.Usage.CachedTokens, held)
			}
		}
	}
	st := b.scheduler.pageStats()
	if st.HitHostTokens != 0 || st.HitDeviceTokens == 0 {
		t.Errorf("%+v", st)
	}
	if sum := int64(len(talks[0]) + len(talks[1]) + len(talks[2]) - 3); st.IdleTokens != sum || st.Device.Bytes != 8*sum {
		t.Errorf("%d tokens are held: %+v", sum, st)
	}
	// A stranger takes the place of the conversation that was silent for longest,
	// which is then restored into the place of the next one.
	if _, _ = b.asked(t, promptOf(33, 99), 2); <-used != where[2] {
		t.Error("the stranger took another sequence")
	}
	second, held := where[0], len(talks[2])-1
	if res := ask(2, promptOf(3, 5)); where[2] != second || res.Usage.CachedTokens != held {
		t.Errorf("restored in sequence %d, not %d, with %d cached", where[2], second, res.Usage.CachedTokens)
	}
	if st := b.scheduler.pageStats(); st.HitHostTokens != int64(held) {
		t.Errorf("%+v", st)
	}
}

// A prompt that shares only the beginning with what a sequence holds leaves that
// one alone while there is another: both go on from the device afterwards.
func TestSharedBeginningDisplacesNothing(t *testing.T) {
	b := newBench(t, &fakeModel{}, 2, 512, 32, 8)
	defer b.end(t)
	system := promptOf(32, 1)
	_, one := b.asked(t, slices.Concat(system, promptOf(200, 50)), 4)
	res, two := b.asked(t, slices.Concat(system, promptOf(200, 90)), 4)
	if st := b.scheduler.pageStats(); res.Usage.CachedTokens != 32 || st.HitHostTokens != 32 {
		t.Errorf("%+v, %+v", res, st)
	}
	for _, talk := range [][]int32{one, two} {
		if res, _ := b.asked(t, append(talk, 1, 2, 3), 2); res.Usage.CachedTokens != len(talk)-1 {
			t.Errorf("%d of %d cached", res.Usage.CachedTokens, len(talk))
		}
	}
	if st := b.scheduler.pageStats(); st.HitHostTokens != 32 {
		t.Errorf("%+v", st)
	}
}

// What no page has is gone on from, also when most of what the sequence holds is
// given up for it; that moves down first.
func TestPagesThatOnlyTheDeviceHas(t *testing.T) {
	b := newBench(t, &fakeModel{}, 2, 512, 32, 8)
	defer b.end(t)
	system := promptOf(32, 1)
	_, one := b.asked(t, slices.Concat(system, promptOf(200, 50)), 4)
	if _, err := b.scheduler.store.DropHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res, _ := b.asked(t, slices.Concat(system, promptOf(50, 90)), 4); res.Usage.CachedTokens != 32 || b.scheduler.pageStats().HitDeviceTokens != 32 {
		t.Errorf("%+v, %+v", res, b.scheduler.pageStats())
	}
	if res, _ := b.asked(t, append(one, 1), 2); res.Usage.CachedTokens != len(one)-1 {
		t.Errorf("%d of %d cached", res.Usage.CachedTokens, len(one))
	}
}

// What the host tier has lost moves down again before its sequence is given away.
func TestDeviceMovesDown(t *testing.T) {
	b := newBench(t, &fakeModel{}, 2, 256, 32, 8)
	defer b.end(t)
	_, talk := b.asked(t, promptOf(100, 1), 4)
	if _, err := b.scheduler.store.DropHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range int32(2) {
		b.asked(t, promptOf(60, 10*i+20), 4)
	}
	if st := b.scheduler.pageStats(); st.Host.Pages < 7 {
		t.Errorf("%+v", st)
	}
	if res, _ := b.asked(t, append(talk, 4), 2); res.Usage.CachedTokens != 103 || b.scheduler.pageStats().HitHostTokens != 103 {
		t.Errorf("%+v", res)
	}
}

// What idle sequences hold moves down when a worker drains, and when the scheduler ends.
func TestEndMovesDown(t *testing.T) {
	for _, end := range []func(t *testing.T, s *scheduler){
		func(*testing.T, *scheduler) {},
		func(t *testing.T, s *scheduler) {
			if err := s.flushPages(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.store.Stats().Host.Pages; n != 7 {
				t.Errorf("%d pages after the flush", n)
			}
		},
	} {
		model := &fakeModel{}
		b := newBench(t, model, 1, 256, 32, 8)
		b.asked(t, promptOf(100, 1), 4)
		if _, err := b.scheduler.store.DropHost(t.Context()); err != nil {
			t.Fatal(err)
		}
		end(t, b.scheduler)
		b.scheduler.close()
		if n := b.scheduler.store.Stats().Host.Pages; n != 7 {
			t.Errorf("%d pages after the end", n)
		}
		if err := b.scheduler.flushPages(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.scheduler.cfg.kept.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A sequence that holds other tokens than the account says is not gone on from.
func TestDeviceIsCheckedBeforeItIsUsed(t *testing.T) {
	model := &fakeModel{}
	b := newBench(t, model, 1, 256, 32, 8)
	defer b.end(t)
	_, talk := b.asked(t, promptOf(100, 1), 4)
	model.forget = true // the engine has lost a token of every sequence
	b.asked(t, append(talk, 4), 2)
	if st := b.scheduler.pageStats(); st.HitDeviceTokens != 0 || st.HitHostTokens != 103 {
		t.Errorf("%+v", st)
	}
}

// With exact reuse only whole pages of prompts stay on the device.
func TestExactDeviceHoldsWholePages(t *testing.T) {
	model := &fakeModel{}
	b := &bench{model: model, resident: startResident(t, model, 1, 256, 32, 8, func(c *schedulerConfig) { c.pages.exact = true })}
	defer b.end(t)
	prompt := promptOf(100, 1)
	_, talk := b.asked(t, prompt, 20)
	if st := b.scheduler.pageStats(); st.IdleTokens != 96 || st.Device != (shared.PageTier{Pages: 6, Bytes: 8 * 96}) {
		t.Errorf("%+v", st)
	}
	if res, _ := b.asked(t, append(talk, 1), 2); res.Usage.CachedTokens != 96 || b.scheduler.pageStats().HitDeviceTokens != 96 {
		t.Errorf("%+v", res)
	}
}

// At full load conversations go on, are cancelled and displace each other, and
// every answer is the model's.
func TestConversationsUnderLoad(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact %v", exact), func(t *testing.T) {
			model := &fakeModel{}
			b := &bench{model: model, resident: startResident(t, model, 3, 256, 32, 64, func(c *schedulerConfig) {
				c.pages.exact, c.pages.host = exact, 20*16*8
			})}
			defer b.end(t)
			var wg sync.WaitGroup
			for i := range 24 {
				random := rand.New(rand.NewPCG(uint64(i), 7))
				wg.Go(func() {
					talk := promptOf(16*random.IntN(4), 1)
					for range 5 {
						talk = append(talk, promptOf(1+random.IntN(20), int32(random.IntN(50)))...)
						ctx, cancel := context.WithCancel(t.Context())
						cancels, left := random.IntN(3) == 0, random.IntN(8)
						got := b.run(ctx, order{prompt: talk, max: 8, emit: func(shared.Chunk) error {
							if left--; cancels && left < 0 {
								cancel()
							}
							return nil
						}})
						cancel()
						if problem := judge(got, model, talk, 8, 256, cancels); problem != "" {
							t.Error(problem)
						}
						talk = append(talk, got.tokens...)
					}
				})
			}
			wg.Wait()
			if st := b.scheduler.pageStats(); st.HitDeviceTokens == 0 || st.HitHostTokens == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}
