package llamacpp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Sixteen requests at once on a cold slot compute their common trunk once, also
// when the one that computes it is cancelled half-way, and answer as alone.
func TestTrunkOnce(t *testing.T) {
	const trunk, tail, requests, tokens = 1024, 32, 16, 8
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("leader cancelled %v", cancelled), func(t *testing.T) {
			random := rand.New(rand.NewPCG(11, 12))
			common := noise(random, trunk)
			spec := pageSpec("q8_0", shared.ReuseFast)
			spec.ContextTokens, spec.Parallel, spec.Queue = 1152, 8, requests
			s := newPageSlot(t, t.TempDir(), spec)
			defer s.end()
			s.engine.record()
			// The leader's first chunk, or the one that begins half-way, waits for all.
			leading, cancel := context.WithCancel(t.Context())
			defer cancel()
			entered := make(chan struct{})
			var once sync.Once
			hold := func(rows []slotworker.Row) {
				if pos := rows[0].Pos; pos != 0 && pos < trunk/2 || pos == 0 && cancelled {
					return
				}
				once.Do(func() {
					close(entered)
					for st := s.stats(); st.SequencesRunning+st.SequencesWaiting < requests; st = s.stats() {
						runtime.Gosched()
					}
					if cancelled {
						cancel()
					}
				})
			}
			s.engine.before.Store(&hold)
			turns := make([]turn, requests)
			var wg sync.WaitGroup
			for i := range turns {
				ctx := t.Context()
				if i == 0 {
					ctx = leading
				}
				turns[i].prompt = slices.Concat(common, noise(random, tail))
				wg.Go(func() {
					answer, _, err := s.ask(ctx, turns[i].prompt, tokens)
					turns[i].tokens = answer
					if gone := i == 0 && cancelled; gone != (err != nil) {
						t.Errorf("request %d: %v", i, err)
					}
				})
				if i == 0 {
					<-entered
				}
			}
			wg.Wait()
			st := s.stats()
			want := int64(trunk + requests*tail)
			if cancelled {
				want = trunk + (requests-1)*tail // whole pages were computed, and none is lost
			}
			if n := st.Pages.PrefilledTokens; n != want {
				t.Errorf("%d prompt tokens were computed, want %d", n, want)
			}
			cfg := small()
			cfg.Sequences, cfg.TokensPerSequence = 1, 1152
			alone := newContext(t, loadPath(t, "q8_0"), cfg)
			for i, at := range turns {
				at.logits = s.engine.recording(at.prompt)
				if d := solo(t, alone, []turn{at}); d > loadTolerance["q8_0"] {
					t.Errorf("request %d: logits differ by %v", i, d)
				}
				if i > 0 && len(at.tokens) != tokens {
					t.Errorf("request %d got %d tokens", i, len(at.tokens))
				}
			}
		})
	}
}

// Sixteen system prompts with four questions each, mixed, with room for all of
// them on the device or for four: each system prompt is computed once.
func TestInterleavedSystemPrompts(t *testing.T) {
	const systems, each, long, short = 16, 4, 384, 32
	for _, parallel := range []int{systems, 4} {
		t.Run(fmt.Sprint("room for ", parallel), func(t *testing.T) {
			spec := pageSpec("q8_0", shared.ReuseFast)
			spec.Parallel = parallel
			s := newPageSlot(t, t.TempDir(), spec)
			defer s.end()
			random := rand.New(rand.NewPCG(13, 14))
			var wg sync.WaitGroup
			var list [][]int32
			for range systems {
				system := noise(random, long)
				for range each {
					list = append(list, slices.Concat(system, noise(random, short)))
				}
			}
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			next := make(chan []int32)
			for range 8 {
				wg.Go(func() {
					for p := range next {
						if _, _, err := s.ask(t.Context(), p, 2); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for _, p := range list {
				next <- p
			}
			close(next)
			wg.Wait()
			least := int64(systems * (long + each*short))
			st := s.stats().Pages
			if n := st.PrefilledTokens; n > least*105/100 {
				t.Errorf("%d prompt tokens were computed, %d had to be", n, least)
			}
			if st.HitHostTokens+st.HitDeviceTokens < systems*(each-1)*long || parallel < systems && st.HitHostTokens < systems*long {
				t.Errorf("%+v", st)
			}
			t.Logf("%d prompt tokens were computed, %d had to be", st.PrefilledTokens, least)
		})
	}
}
