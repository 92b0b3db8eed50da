package llamacpp

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// Sixteen requests at once on a cold slot compute their common trunk once.
func TestTrunkOnce(t *testing.T) {
	const trunk, tail, requests = 384, 32, 16
	spec := pageSpec("q8_0", shared.ReuseFast)
	spec.Parallel = 8
	random := rand.New(rand.NewPCG(11, 12))
	common := noise(random, trunk)
	var list [][]int32
	for range requests {
		list = append(list, slices.Concat(common, noise(random, tail)))
	}
	alone := newPageSlot(t, t.TempDir(), pageSpec("q8_0", shared.ReuseFast))
	var want [][]int32
	for _, p := range list {
		tokens, _, _ := alone.must(p, 8)
		want = append(want, tokens)
	}
	alone.end()
	s := newPageSlot(t, t.TempDir(), spec)
	defer s.end()
	differing := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() {
			tokens, _, err := s.ask(t.Context(), p, 8)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if !slices.Equal(tokens, want[i]) {
				differing++
			}
		})
	}
	wg.Wait()
	if n := s.stats().Pages.PrefilledTokens; n != trunk+requests*tail {
		t.Errorf("%d prompt tokens were computed, want %d", n, trunk+requests*tail)
	}
	// Rows in a batch round differently from rows alone: ties may fall elsewhere.
	if differing > requests/4 {
		t.Errorf("%d of %d answers differ from those alone", differing, requests)
	}
}

// Sixteen system prompts with four questions each, mixed, with room for few of
// them on the device: each system prompt is computed once.
func TestInterleavedSystemPrompts(t *testing.T) {
	const systems, each, long, short = 16, 4, 384, 32
	spec := pageSpec("q8_0", shared.ReuseFast)
	spec.Parallel = 4
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
	if n := s.stats().Pages.PrefilledTokens; n > least*105/100 {
		t.Errorf("%d prompt tokens were computed, %d had to be", n, least)
	}
}
