package bench

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearestRank(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for percent, want := range map[int]float64{1: 1, 50: 5, 51: 6, 95: 10, 90: 9, 100: 10} {
		if got := nearestRank(values, percent); got != want {
			t.Errorf("p%d is %v instead of %v", percent, got, want)
		}
	}
	if got := nearestRank([]float64{7}, 95); got != 7 {
		t.Errorf("p95 of one value is %v", got)
	}
}

func TestSummarise(t *testing.T) {
	if got := SpreadOf(nil); got != (Spread{}) {
		t.Errorf("nothing spreads as %+v", got)
	}
	values := []float64{3, 1, 2}
	if got := SpreadOf(values); got != (Spread{1, 2, 3, 3}) || !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("%+v, and the values are now %v", got, values)
	}
	run := func(name string, ms float64) Run {
		return Run{Case: name, FirstChunkMS: ms, FullResponseMS: 2 * ms, PhaseMS: map[string]float64{"prefill": ms / 2, "decode_first_token": 1, "slot_activation": 2, "other": 1}}
	}
	got := Summarise([]Run{run("b", 10), run("a", 30), run("b", 20)})
	if len(got) != 2 || got[0].Case != "b" || got[1].Case != "a" || got[0].Runs != 2 {
		t.Fatalf("%+v", got)
	}
	if got[0].FirstChunkMS != (Spread{10, 10, 20, 20}) || got[0].OverheadMS != (Spread{2, 2, 7, 7}) || got[0].PhaseMS["prefill"] != (Spread{5, 5, 10, 10}) {
		t.Errorf("%+v", got[0])
	}
}

// Two sides of which one drifts with the machine: pair by pair the ratio stays,
// while the ratio of the medians does not.
func TestCompareByPairs(t *testing.T) {
	var pairs []Pair
	for i := range 9 {
		slow := float64(1 + i*i)
		pairs = append(pairs, Pair{Ours: 2 * slow, Theirs: 4 * slow})
	}
	pairs[8].Ours *= 3
	pairs = append(pairs, Pair{Ours: 0, Theirs: 1}, Pair{Ours: 1, Theirs: 0}) // a side without a figure
	c := Compare("peer", "case", FirstChunk, pairs)
	if want := (Ratio{Median: 0.5, Min: 0.5, P25: 0.5, P75: 0.5, Max: 1.5}); c.Ratio != want {
		t.Errorf("%+v instead of %+v", c.Ratio, want)
	}
	if len(c.Pairs) != 9 || c.Ours.Median != 34 || c.Theirs.Median != 68 {
		t.Errorf("%+v", c)
	}
	if c := Compare("peer", "case", EngineTime, []Pair{{0, 1}}); c.NotComparable == "" || c.Pairs != nil {
		t.Errorf("a side that has no figure gives %+v", c)
	}
}

func TestDiff(t *testing.T) {
	doc := func(first, tokens, ratio float64, names ...string) Document {
		d := Document{
			Environment: &Environment{CPU: "x"}, Settings: &Settings{Threads: 1},
			Loads:       []Load{{Case: "clients_8", Mode: Closed, TokensPerSecond: tokens, FirstChunkMS: Percentiles{Median: 5, P95: 6}}},
			Curves:      []Curve{{Case: "slots_route", Unit: "ms", Points: []Point{{X: 10, Value: Spread{Median: 0.01}}}}},
			Comparisons: []Comparison{{Peer: "p", Case: "hit", Measure: FirstChunk, Ratio: Ratio{Median: ratio}}, {Peer: "p", Case: "none", NotComparable: "no API"}},
		}
		for _, n := range names {
			d.Runs = append(d.Runs, Run{Case: n, FirstChunkMS: first, FullResponseMS: first})
		}
		return d
	}
	cfg := DiffConfig{Threshold: 1.25, LeastMS: 0.1}
	if d := Differ(doc(10, 100, 0.5, "a"), doc(10, 100, 0.5, "a"), cfg); d.Regressed != 0 || len(d.Changes) != 3+4+1+1 || len(d.Remarks) != 0 {
		t.Errorf("a document differs from itself: %+v", d)
	}
	after := doc(13, 70, 0.7, "a", "b")
	after.Environment.CPU, after.Settings.Threads = "y", 2
	after.Curves[0].Points[0].Value.Median = 0.09 // nine times as much, and nothing
	d := Differ(doc(10, 100, 0.5, "a", "gone"), after, cfg)
	var regressed []string
	for _, c := range d.Changes {
		if c.Regressed {
			regressed = append(regressed, c.What)
		}
	}
	want := []string{
		"a: first chunk, median ms", "a: first chunk, p95 ms", "a: full response, median ms",
		"clients_8 (closed): tokens a second", "hit against p: first_chunk_ms, ratio",
	}
	if diff := cmp.Diff(want, regressed); diff != "" || d.Regressed != len(want) {
		t.Errorf("regressions (-want +got):\n%s", diff)
	}
	if len(d.OnlyOld) != 3 || len(d.OnlyNew) != 3 || len(d.Remarks) != 2 {
		t.Errorf("%+v", d)
	}
	// Better is no regression, and failures that there were none of are one.
	if d := Differ(doc(13, 70, 0.7, "a"), doc(10, 100, 0.5, "a"), cfg); d.Regressed != 0 {
		t.Errorf("what has become better counts as %+v", d)
	}
	failing := doc(10, 100, 0.5, "a")
	failing.Loads[0].Failed = 3
	if d := Differ(doc(10, 100, 0.5, "a"), failing, cfg); d.Regressed != 1 {
		t.Errorf("failures count as %+v", d)
	}
	for _, bad := range []DiffConfig{{Threshold: 1}, {Threshold: 1.2, LeastMS: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestPromptsAreDeterministic(t *testing.T) {
	a, err := NewPrompts(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewPrompts(t.Context(), 1, nil)
	c, _ := NewPrompts(t.Context(), 2, nil)
	if a.Text(5, 64) != b.Text(5, 64) || a.Text(5, 64) == a.Text(6, 64) || a.Text(5, 64) == c.Text(5, 64) {
		t.Error("texts do not follow seed and number alone")
	}
	w := SharedPrefix{Prefixes: 3, PrefixTokens: 384, QuestionTokens: 32, Rounds: 2, MaxTokens: 16}
	asked := a.Questions(0, w)
	if len(asked) != 6 || asked[0].System != asked[3].System || asked[0].System == asked[1].System || asked[0].Text == asked[3].Text {
		t.Errorf("%+v", asked)
	}
	if s := w.Scaled(256); s.PrefixTokens+s.QuestionTokens+s.MaxTokens > 256 || s.PrefixTokens < 64 {
		t.Errorf("scaled to %+v", s)
	}
	if s := w.Scaled(4096); s != w {
		t.Errorf("scaled to %+v although there is room", s)
	}
}
