package report

import (
	"bytes"
	"encoding/csv"
	"strconv"

	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

// csvOf is one line for each figure: what kind of figure, of which case, and its
// spread. Single runs are in the JSON document.
func csvOf(doc bench.Document) ([]byte, error) {
	rows := [][]string{{"kind", "case", "measure", "x", "n", "min", "median", "p95", "max"}}
	add := func(kind, name, measure, x string, n int, s bench.Spread) {
		rows = append(rows, []string{kind, name, measure, x, strconv.Itoa(n), number(s.Min), number(s.Median), number(s.P95), number(s.Max)})
	}
	for _, c := range doc.Summary {
		add("case", c.Case, "first_chunk_ms", "", c.Runs, c.FirstChunkMS)
		add("case", c.Case, "full_response_ms", "", c.Runs, c.FullResponseMS)
		add("case", c.Case, "overhead_ms", "", c.Runs, c.OverheadMS)
		for _, p := range (shared.Phases{}).List() {
			add("case", c.Case, string(p.Phase)+"_ms", "", c.Runs, c.PhaseMS[string(p.Phase)])
		}
	}
	for _, l := range doc.Loads {
		add("load", l.Case, l.Mode+" first_chunk_ms", "", l.Requests, spread(l.FirstChunkMS))
		add("load", l.Case, l.Mode+" full_response_ms", "", l.Requests, spread(l.FullResponseMS))
		t := l.TokensPerSecond
		add("load", l.Case, l.Mode+" tokens_per_second", "", l.Requests, bench.Spread{Min: t, Median: t, P95: t, Max: t})
	}
	for _, c := range doc.Curves {
		for _, p := range c.Points {
			add("curve", c.Case, c.Unit, number(p.X), 0, p.Value)
		}
	}
	for _, c := range doc.Comparisons {
		if c.NotComparable != "" {
			continue
		}
		add("ours", c.Case, c.Measure, c.Peer, len(c.Pairs), c.Ours)
		add("theirs", c.Case, c.Measure, c.Peer, len(c.Pairs), c.Theirs)
		add("ratio", c.Case, c.Measure, c.Peer, len(c.Pairs), bench.Spread{Min: c.Ratio.Min, Median: c.Ratio.Median, P95: c.Ratio.P75, Max: c.Ratio.Max})
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func spread(p bench.Percentiles) bench.Spread {
	return bench.Spread{Min: p.Min, Median: p.Median, P95: p.P95, Max: p.Max}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
