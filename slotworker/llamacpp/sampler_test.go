package llamacpp

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// told is a context whose last row has the logits that begin the story.
func told(t testing.TB) (c *Context, row int, logits []float32) {
	t.Helper()
	m := loadPath(t, "f16")
	c = newContext(t, m, small())
	rows := run(0, 0, tokenize(t, m, fox+"Once upon a time, there was a")...)
	logits = last(t, c, rows)
	return c, len(rows) - 1, logits
}

func newSampler(t testing.TB, m *Model, s shared.Sampling, history ...int32) *Sampler {
	t.Helper()
	own, err := m.NewSampler(s, history)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	return own.(*Sampler)
}

// draw samples n times from the same row.
func draw(t testing.TB, c *Context, row, n int, s shared.Sampling, history ...int32) []int32 {
	t.Helper()
	own := newSampler(t, c.model, s, history...)
	var tokens []int32
	for range n {
		tokens = append(tokens, c.Sample(own, row))
	}
	return tokens
}

// ranked are token ids by falling logit.
func ranked(logits []float32) []int32 {
	ids := make([]int32, len(logits))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	return ids
}

func TestGreedySampling(t *testing.T) {
	c, row, logits := told(t)
	by := ranked(logits)
	ban := float32(math.Inf(-1))
	for name, tt := range map[string]struct {
		s       shared.Sampling
		history []int32
		want    int32
	}{
		"best":           {shared.Sampling{}, nil, by[0]},
		"other settings": {shared.Sampling{TopK: 5, TopP: 0.1, MinP: 0.9, Seed: 7}, nil, by[0]},
		"top_k 1":        {shared.Sampling{Temperature: 2, TopK: 1}, nil, by[0]},
		"ban":            {shared.Sampling{LogitBias: []shared.LogitBias{{Token: by[0], Bias: ban}}}, nil, by[1]},
		"ban two": {shared.Sampling{LogitBias: []shared.LogitBias{
			{Token: by[0], Bias: -100}, {Token: by[1], Bias: ban}}}, nil, by[2]},
		"force":     {shared.Sampling{LogitBias: []shared.LogitBias{{Token: 42, Bias: 100}}}, nil, 42},
		"frequency": {shared.Sampling{FrequencyPenalty: 50}, []int32{by[0]}, by[1]},
		"presence":  {shared.Sampling{PresencePenalty: 50}, []int32{by[0], by[1]}, by[2]},
		"repeat":    {shared.Sampling{RepeatPenalty: 1e6}, []int32{by[0]}, by[1]},
		"history beyond the look-back": {shared.Sampling{PresencePenalty: 50, RepeatLastN: 2},
			[]int32{by[0], 1, 2}, by[0]},
		"history in the look-back": {shared.Sampling{PresencePenalty: 50, RepeatLastN: 3},
			[]int32{by[0], 1, 2}, by[1]},
		"look-back of 64": {shared.Sampling{PresencePenalty: 50},
			append([]int32{by[0]}, make([]int32, 64)...), by[0]},
		"look-back of everything": {shared.Sampling{PresencePenalty: 50, RepeatLastN: -1},
			append([]int32{by[0]}, make([]int32, 1000)...), by[1]},
		"huge look-back":        {shared.Sampling{PresencePenalty: 50, RepeatLastN: math.MaxInt}, []int32{by[0]}, by[1]},
		"history of bad tokens": {shared.Sampling{PresencePenalty: 50}, []int32{-5, 1 << 30, by[0]}, by[1]},
	} {
		if got := draw(t, c, row, 1, tt.s, tt.history...)[0]; got != tt.want {
			t.Errorf("%s: token %d, want %d", name, got, tt.want)
		}
	}
	// Sampling accepts, so a penalty sees what was chosen just before.
	if got := draw(t, c, row, 3, shared.Sampling{PresencePenalty: 50}); !slices.Equal(got, by[:3]) {
		t.Errorf("one after the other %v, want %v", got, by[:3])
	}
	own := newSampler(t, c.model, shared.Sampling{PresencePenalty: 50})
	own.Accept(by[0])
	own.Accept(-1)
	own.Accept(1 << 30)
	if got := c.Sample(own, row); got != by[1] {
		t.Errorf("after accepting the best token %d, want %d", got, by[1])
	}
}

func TestSeeds(t *testing.T) {
	c, row, _ := told(t)
	for _, seed := range []uint32{1, 2, math.MaxUint32 - 1, math.MaxUint32} {
		s := shared.Sampling{Temperature: 5, Seed: seed}
		if a, b := draw(t, c, row, 50, s), draw(t, c, row, 50, s); !slices.Equal(a, b) {
			t.Errorf("seed %d gives %v and %v", seed, a, b)
		}
	}
	one, two := shared.Sampling{Temperature: 5, Seed: 1}, shared.Sampling{Temperature: 5, Seed: 2}
	if slices.Equal(draw(t, c, row, 50, one), draw(t, c, row, 50, two)) {
		t.Error("two seeds give the same")
	}
	random := shared.Sampling{Temperature: 5}
	if slices.Equal(draw(t, c, row, 50, random), draw(t, c, row, 50, random)) {
		t.Error("without a seed the same was drawn twice")
	}
	for range 1000 {
		if s := librarySeed(0); s == 0 || s == math.MaxUint32 {
			t.Fatalf("random seed %d", s)
		}
	}
}

// The filters look at the distribution before temperature flattens it: at a
// temperature this high anything that they let through is drawn.
func TestFiltersComeBeforeTemperature(t *testing.T) {
	c, row, logits := told(t)
	by := ranked(logits)
	p := make([]float64, len(by))
	var sum float64
	for i, id := range by {
		p[i] = math.Exp(float64(logits[id] - logits[by[0]]))
		sum += p[i]
	}
	// Cut in the middle between the third and the fourth.
	var mass float64
	for i := range 3 {
		mass += p[i] / sum
	}
	for name, s := range map[string]shared.Sampling{
		"top_k": {TopK: 3},
		"min_p": {MinP: float32((p[2] + p[3]) / 2)},
		"top_p": {TopP: float32(mass - p[2]/sum/2)},
	} {
		s.Temperature, s.Seed = 1e4, 3
		seen := slices.Compact(slices.Sorted(slices.Values(draw(t, c, row, 300, s))))
		want := slices.Sorted(slices.Values(by[:3]))
		if !slices.Equal(seen, want) {
			t.Errorf("%s: drew %v, want %v", name, seen, want)
		}
	}
	if seen := slices.Compact(slices.Sorted(slices.Values(draw(t, c, row, 300, shared.Sampling{Temperature: 1e4, Seed: 3})))); len(seen) < 100 {
		t.Errorf("without a filter %d tokens were drawn", len(seen))
	}
}

func TestDistribution(t *testing.T) {
	c, row, logits := told(t)
	by := ranked(logits)
	// Even out the first two, at half a temperature that doubles what is left.
	bias := []shared.LogitBias{{Token: by[1], Bias: logits[by[0]] - logits[by[1]] + 0.5}}
	const n = 4000
	first := 0
	for _, token := range draw(t, c, row, n, shared.Sampling{Temperature: 0.5, TopK: 2, Seed: 9, LogitBias: bias}) {
		if token == by[0] {
			first++
		}
	}
	want := n / (1 + math.E)
	if d := math.Abs(float64(first) - want); d > 5*math.Sqrt(want) {
		t.Errorf("the second-best token was drawn %d times, expected %.0f", first, want)
	}
}

func TestSamplingRefusals(t *testing.T) {
	m := loadPath(t, "q8_0")
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for field, bad := range map[string][]shared.Sampling{
		"temperature":       {{Temperature: -1}, {Temperature: nan}, {Temperature: inf}},
		"top_k":             {{TopK: -1}},
		"top_p":             {{TopP: -0.1}, {TopP: 1.1}, {TopP: nan}},
		"min_p":             {{MinP: -0.1}, {MinP: 1.1}, {MinP: nan}},
		"repeat_penalty":    {{RepeatPenalty: -1}, {RepeatPenalty: nan}, {RepeatPenalty: inf}},
		"repeat_last_n":     {{RepeatLastN: -2}},
		"presence_penalty":  {{PresencePenalty: nan}},
		"frequency_penalty": {{FrequencyPenalty: inf}},
		"logit_bias": {
			{LogitBias: []shared.LogitBias{{Token: -1}}}, {LogitBias: []shared.LogitBias{{Token: 1}, {Token: 1024}}},
			{LogitBias: []shared.LogitBias{{Token: 1, Bias: nan}}}, {LogitBias: []shared.LogitBias{{Token: 1, Bias: inf}}},
		},
	} {
		for _, s := range bad {
			_, err := m.NewSampler(s, nil)
			var e *shared.Error
			if !errors.As(err, &e) || e.Kind != shared.KindInvalid || e.Field != field {
				t.Errorf("%s, %+v: %v", field, s, err)
			}
		}
	}
}

// Odd but legal: the engine must give some token and not end the process.
func TestSamplingAtTheEdges(t *testing.T) {
	c, row, _ := told(t)
	all := make([]shared.LogitBias, c.model.info.Vocab)
	for i := range all {
		all[i] = shared.LogitBias{Token: int32(i), Bias: float32(math.Inf(-1))}
	}
	for name, s := range map[string]shared.Sampling{
		"all banned, greedy":  {LogitBias: all},
		"all banned, drawn":   {LogitBias: all, Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.1},
		"tiny temperature":    {Temperature: math.SmallestNonzeroFloat32},
		"huge temperature":    {Temperature: math.MaxFloat32},
		"huge penalties":      {RepeatPenalty: math.MaxFloat32, PresencePenalty: -math.MaxFloat32, FrequencyPenalty: math.MaxFloat32, Temperature: 1},
		"huge bias":           {Temperature: 1, LogitBias: []shared.LogitBias{{Token: 1, Bias: math.MaxFloat32}, {Token: 2, Bias: math.MaxFloat32}}},
		"tiny probabilities":  {Temperature: 1, TopP: math.SmallestNonzeroFloat32, MinP: 1},
		"more than there are": {Temperature: 1, TopK: math.MaxInt},
	} {
		for _, token := range draw(t, c, row, 3, s, 1, 2, 3) {
			if !c.model.valid(token) {
				t.Errorf("%s: token %d", name, token)
			}
		}
	}
}

func TestSampleNeedsLogits(t *testing.T) {
	c, row, _ := told(t)
	own := newSampler(t, c.model, shared.Sampling{})
	for _, bad := range []int{-1, row - 1, row + 1, 1 << 30} {
		if got := c.Sample(own, bad); got != -1 {
			t.Errorf("row %d: token %d", bad, got)
		}
	}
	foreign := newSampler(t, loadTiny(t, tinyLlama()), shared.Sampling{})
	if got := c.Sample(foreign, row); got != -1 {
		t.Errorf("a sampler of another model gave %d", got)
	}
	own.Close()
	own.Close()
	own.Accept(1)
	if got := c.Sample(own, row); got != -1 {
		t.Errorf("a closed sampler gave %d", got)
	}
	var nothing slotworker.Sampler
	if got := c.Sample(nothing, row); got != -1 {
		t.Errorf("no sampler gave %d", got)
	}
}
