package report

import (
	"fmt"
	"strings"

	"github.com/go-analyze/charts"

	"github.com/firstframe/firstframe/internal/bench"
)

// pictures draws everything that a document has figures for.
func pictures(doc bench.Document) ([]picture, error) {
	var all []picture
	add := func(p picture, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		all = append(all, p)
		return nil
	}
	var quick []bench.Case // those that are invisible beside a cold one
	slowest := 0.0
	for _, c := range doc.Summary {
		slowest = max(slowest, c.FirstChunkMS.Median)
	}
	for _, c := range doc.Summary {
		if c.FirstChunkMS.Median < slowest/8 {
			quick = append(quick, c)
		}
	}
	if len(doc.Summary) > 0 {
		if err := add(overview("cases", "First chunk by phases", doc.Summary)); err != nil {
			return nil, err
		}
	}
	if len(quick) > 0 {
		if err := add(overview("cases-quick", "First chunk by phases: the cases that need no preparation", quick)); err != nil {
			return nil, err
		}
		if err := add(percentilesOf(doc.Runs, quick)); err != nil {
			return nil, err
		}
	}
	for _, c := range doc.Summary {
		if err := add(waterfall(c)); err != nil {
			return nil, err
		}
	}
	if len(doc.Loads) > 0 {
		if err := add(loads(doc.Loads)); err != nil {
			return nil, err
		}
		if err := add(throughput(doc.Loads)); err != nil {
			return nil, err
		}
	}
	for _, c := range doc.Curves {
		if err := add(curve(c)); err != nil {
			return nil, err
		}
	}
	for _, peer := range doc.Peers {
		for i, measures := range [][]string{{bench.FirstChunk}, {bench.Overhead, bench.EngineTime}, {bench.FirstChunkP95, bench.Wall}} {
			for _, m := range measures {
				p, err := sides(doc.Comparisons, peer, m, i)
				if err == nil && p.SVG == "" {
					continue
				}
				if err := add(p, err); err != nil {
					return nil, err
				}
			}
		}
		p, err := ratios(doc.Comparisons, peer)
		if err == nil && p.SVG == "" {
			continue
		}
		if err := add(p, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// loads are the distributions under load, closed and open.
func loads(all []bench.Load) (picture, error) {
	l := lines{places: []string{"min", "p50", "p90", "p95", "p99", "max"}, x: "percentile of the requests", unit: "ms"}
	for _, load := range all {
		p := load.FirstChunkMS
		l.series = append(l.series, loadName(load))
		l.values = append(l.values, []float64{p.Min, p.Median, p.P90, p.P95, p.P99, p.Max})
	}
	svg, err := l.draw()
	return picture{
		Name: "distribution-load", Title: "First chunk under load", SVG: svg,
		Note: "Closed: each client waits for its answer before it asks again. Open: requests come at their times, and count from then.",
	}, err
}

func loadName(l bench.Load) string {
	if l.Mode == bench.Open {
		return fmt.Sprintf("%s, %.3g/s", l.Case, l.RatePerSecond)
	}
	return l.Case
}

func throughput(all []bench.Load) (picture, error) {
	b := bars{series: []string{"tokens a second"}, unit: "tokens/s", colours: []charts.Color{charts.ParseColor(blue)}, label: true}
	var values []float64
	for _, l := range all {
		b.rows, values = append(b.rows, loadName(l)), append(values, l.TokensPerSecond)
	}
	b.values = [][]float64{values}
	svg, err := b.draw()
	return picture{Name: "throughput", Title: "Tokens a second under load", SVG: svg}, err
}

func curve(c bench.Curve) (picture, error) {
	l := lines{x: c.X, unit: c.Unit, series: []string{"median", "p95"}}
	var median, p95 []float64
	for _, p := range c.Points {
		l.places = append(l.places, short(p.X))
		median, p95 = append(median, p.Value.Median), append(p95, p.Value.P95)
	}
	l.values = [][]float64{median, p95}
	svg, err := l.draw()
	return picture{Name: "curve-" + c.Case, Title: c.Case, SVG: svg, Note: "Places are evenly apart, whatever their distance."}, err
}

// sides are the medians of both servers in one measure.
func sides(all []bench.Comparison, peer bench.PeerInfo, measure string, _ int) (picture, error) {
	b := bars{series: []string{"firstframe", string(peer.Kind)}, unit: "ms", legend: true, label: true, colours: []charts.Color{charts.ParseColor(blue), charts.ParseColor(gold)}}
	var ours, theirs []float64
	for _, c := range all {
		if c.Peer == peer.URL && c.Measure == measure && c.NotComparable == "" {
			b.rows = append(b.rows, c.Case)
			ours, theirs = append(ours, c.Ours.Median), append(theirs, c.Theirs.Median)
		}
	}
	p := picture{Name: fmt.Sprintf("against-%s-%s", slug(peer), measure), Title: fmt.Sprintf("%s: median %s", peer.Kind, measure)}
	if len(b.rows) == 0 {
		return p, nil
	}
	b.values = [][]float64{ours, theirs}
	var err error
	p.SVG, err = b.draw()
	return p, err
}

// ratios are ours to theirs in every measure.
func ratios(all []bench.Comparison, peer bench.PeerInfo) (picture, error) {
	b := bars{series: []string{"25 % of pairs", "median", "75 % of pairs"}, unit: "ours / theirs", legend: true, colours: []charts.Color{charts.ParseColor("#b9cfe8"), charts.ParseColor(blue), charts.ParseColor("#14406f")}, label: true}
	b.values = make([][]float64, 3)
	for _, c := range all {
		if c.Peer != peer.URL || c.NotComparable != "" || c.Measure == bench.EngineTime {
			continue
		}
		b.rows = append(b.rows, c.Case+" "+c.Measure)
		for i, v := range []float64{c.Ratio.P25, c.Ratio.Median, c.Ratio.P75} {
			b.values[i] = append(b.values[i], v)
		}
	}
	p := picture{
		Name: "ratios-" + slug(peer), Title: fmt.Sprintf("firstframe to %s, pair by pair", peer.Kind),
		Note: "Below 1 is better for times, above 1 for tokens_per_second.",
	}
	if len(b.rows) == 0 {
		return p, nil
	}
	var err error
	p.SVG, err = b.draw()
	return p, err
}

func slug(peer bench.PeerInfo) string {
	return strings.ReplaceAll(string(peer.Kind), " ", "-")
}
