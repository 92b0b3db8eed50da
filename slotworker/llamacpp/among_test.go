package llamacpp

import (
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// among lets through a few tokens, and counts how often it was asked for all.
type among struct {
	tokens []int32
	size   int
	masks  int
}

func (a *among) Allows(token int32) bool { return slices.Contains(a.tokens, token) }

func (a *among) Mask() []uint64 {
	a.masks++
	if len(a.tokens) == 0 {
		return nil
	}
	mask := make([]uint64, (a.size+63)/64)
	for _, t := range a.tokens {
		mask[t/64] |= 1 << (t % 64)
	}
	return mask
}

func TestSampleAmong(t *testing.T) {
	c, row, logits := told(t)
	by := ranked(logits)
	size := len(logits)
	for name, tt := range map[string]struct {
		s      shared.Sampling
		tokens []int32
		want   int32
		masks  int
	}{
		"all":               {shared.Sampling{}, by, by[0], 0},
		"best of some":      {shared.Sampling{}, []int32{by[9], by[3], by[200]}, by[3], 1},
		"one":               {shared.Sampling{Temperature: 1, TopK: 40, TopP: 0.9, Seed: 3}, []int32{by[300]}, by[300], 1},
		"last of the words": {shared.Sampling{}, []int32{int32(size - 1)}, int32(size - 1), 1},
		"none":              {shared.Sampling{}, nil, -1, 1},
		"bias counts":       {shared.Sampling{LogitBias: []shared.LogitBias{{Token: by[9], Bias: 100}}}, []int32{by[3], by[9]}, by[9], 0},
	} {
		may := &among{tokens: tt.tokens, size: size}
		if got := c.SampleAmong(newSampler(t, c.model, tt.s), row, may); got != tt.want || may.masks != tt.masks {
			t.Errorf("%s: token %d with %d masks, want %d with %d", name, got, may.masks, tt.want, tt.masks)
		}
	}
	// With everything allowed it draws what Sample draws, and penalties see it.
	s := shared.Sampling{Temperature: 1.5, TopK: 50, MinP: 0.01, Seed: 11, PresencePenalty: 3}
	own, all := newSampler(t, c.model, s), &among{tokens: by, size: size}
	var got []int32
	for range 20 {
		got = append(got, c.SampleAmong(own, row, all))
	}
	if want := draw(t, c, row, 20, s); !slices.Equal(got, want) {
		t.Errorf("drawn %v, Sample draws %v", got, want)
	}
	if got := c.SampleAmong(newSampler(t, c.model, s), row+1, all); got != -1 {
		t.Errorf("a row without logits gives %d", got)
	}
}
