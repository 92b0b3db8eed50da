package bench

import (
	"fmt"
	"math"
	"slices"
)

// Change is one figure in two documents.
type Change struct {
	What string  `json:"what"`
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
	// Ratio is above 1 when the new one is worse, whichever way the figure counts.
	Ratio     float64 `json:"ratio"`
	Regressed bool    `json:"regressed"`
}

// Diff is two documents side by side.
type Diff struct {
	Threshold float64  `json:"threshold"`
	Changes   []Change `json:"changes"`
	Regressed int      `json:"regressed"`
	// OnlyOld and OnlyNew are figures that the other document lacks.
	OnlyOld []string `json:"only_old"`
	OnlyNew []string `json:"only_new"`
	// Remarks say what else differs, and may explain a change.
	Remarks []string `json:"remarks"`
}

// figure is a number of a document under a name that finds it in another one.
type figure struct {
	what  string
	value float64
	more  bool // more is better
	// least is how much it must change by before a ratio means anything.
	least float64
}

// DiffConfig says what counts as a regression.
type DiffConfig struct {
	// Threshold is the ratio from which on the new figure is a regression, above 1.
	Threshold float64
	// LeastMS is a difference in milliseconds that never is one, since small
	// figures have large ratios.
	LeastMS float64
}

// Validate reports what is wrong with it.
func (c DiffConfig) Validate() error {
	if !(c.Threshold > 1) || math.IsInf(c.Threshold, 0) {
		return fmt.Errorf("the threshold is a ratio above 1, not %v", c.Threshold)
	}
	if !(c.LeastMS >= 0) {
		return fmt.Errorf("the least difference is not negative, and %v is not possible", c.LeastMS)
	}
	return nil
}

// Differ compares what both documents have.
func Differ(before, after Document, cfg DiffConfig) Diff {
	d := Diff{Threshold: cfg.Threshold, Changes: []Change{}, OnlyOld: []string{}, OnlyNew: []string{}, Remarks: remarks(before, after)}
	old := figures(before, cfg)
	now := figures(after, cfg)
	for _, o := range old {
		i := slices.IndexFunc(now, func(f figure) bool { return f.what == o.what })
		if i < 0 {
			d.OnlyOld = append(d.OnlyOld, o.what)
			continue
		}
		n := now[i]
		c := Change{What: o.what, Old: o.value, New: n.value, Ratio: worse(o, n)}
		c.Regressed = c.Ratio >= cfg.Threshold && math.Abs(n.value-o.value) > o.least
		if c.Regressed {
			d.Regressed++
		}
		d.Changes = append(d.Changes, c)
	}
	for _, n := range now {
		if !slices.ContainsFunc(old, func(f figure) bool { return f.what == n.what }) {
			d.OnlyNew = append(d.OnlyNew, n.what)
		}
	}
	return d
}

// worse is how many times worse a figure has become. A figure of zero has no
// ratio: two of them are equal, and what begins at zero counts as doubled.
func worse(o, n figure) float64 {
	from, to := o.value, n.value
	if o.more {
		from, to = to, from
	}
	switch {
	case from == to:
		return 1
	case from <= 0:
		return 2
	}
	return to / from
}

// figures are those that a regression would show in.
func figures(d Document, cfg DiffConfig) []figure {
	var all []figure
	cases := d.Summary
	if len(cases) == 0 { // such as what demo prints
		cases = Summarise(d.Runs)
	}
	for _, c := range cases {
		all = append(all,
			figure{c.Case + ": first chunk, median ms", c.FirstChunkMS.Median, false, cfg.LeastMS},
			figure{c.Case + ": first chunk, p95 ms", c.FirstChunkMS.P95, false, cfg.LeastMS},
			figure{c.Case + ": full response, median ms", c.FullResponseMS.Median, false, cfg.LeastMS})
	}
	for _, l := range d.Loads {
		name := l.Case + " (" + l.Mode + ")"
		all = append(all,
			figure{name + ": first chunk, median ms", l.FirstChunkMS.Median, false, cfg.LeastMS},
			figure{name + ": first chunk, p95 ms", l.FirstChunkMS.P95, false, cfg.LeastMS},
			figure{name + ": failed", float64(l.Failed), false, 0})
		if l.Mode == Closed { // in an open loop the rate is given
			all = append(all, figure{name + ": tokens a second", l.TokensPerSecond, true, 0})
		}
	}
	for _, c := range d.Curves {
		least := 0.0
		if c.Unit == "ms" {
			least = cfg.LeastMS
		}
		for _, p := range c.Points {
			all = append(all, figure{fmt.Sprintf("%s at %g: median %s", c.Case, p.X, c.Unit), p.Value.Median, false, least})
		}
	}
	for _, c := range d.Comparisons {
		if c.NotComparable == "" {
			what := fmt.Sprintf("%s against %s: %s, ratio", c.Case, c.Peer, c.Measure)
			all = append(all, figure{what, c.Ratio.Median, MoreIsBetter(c.Measure), 0})
		}
	}
	return all
}

// remarks are differences of surroundings and settings.
func remarks(before, after Document) []string {
	all := []string{}
	add := func(what, o, n string) {
		if o != n {
			all = append(all, fmt.Sprintf("%s: %s before, %s now", what, orNone(o), orNone(n)))
		}
	}
	if o, n := before.Environment, after.Environment; o != nil && n != nil {
		add("processor", o.CPU, n.CPU)
		add("cores", fmt.Sprint(o.Cores), fmt.Sprint(n.Cores))
		add("engine", o.Engine, n.Engine)
		add("CPU variant of the engine", o.CPUVariant, n.CPUVariant)
		add("version", o.Version, n.Version)
		add("Go", o.Go, n.Go)
	}
	if o, n := before.Settings, after.Settings; o != nil && n != nil {
		add("model", o.Model, n.Model)
		add("threads", fmt.Sprint(o.Threads), fmt.Sprint(n.Threads))
		add("tokens a run", fmt.Sprint(o.MaxTokens), fmt.Sprint(n.MaxTokens))
		add("seed", fmt.Sprint(o.Seed), fmt.Sprint(n.Seed))
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
