package bench

import "slices"

// Case sums up the runs of one case.
type Case struct {
	Case           string            `json:"case"`
	Runs           int               `json:"runs"`
	FirstChunkMS   Spread            `json:"first_chunk_ms"`
	FullResponseMS Spread            `json:"full_response_ms"`
	PhaseMS        map[string]Spread `json:"phase_ms"`
	// OverheadMS is the first chunk without what the engine computed for it
	// (prefill and first token) and without preparing the slot.
	OverheadMS Spread `json:"overhead_ms"`
}

// Spread is how a figure varied over the runs.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// Summarise sums up the runs of each case, in the order in which cases first
// appear.
func Summarise(runs []Run) []Case {
	var cases []Case
	byCase := map[string][]Run{}
	var names []string
	for _, r := range runs {
		if byCase[r.Case] == nil {
			names = append(names, r.Case)
		}
		byCase[r.Case] = append(byCase[r.Case], r)
	}
	for _, name := range names {
		cases = append(cases, summary(name, byCase[name]))
	}
	return cases
}

func summary(name string, runs []Run) Case {
	var first, full, overhead []float64
	phases := map[string][]float64{}
	for _, r := range runs {
		first, full = append(first, r.FirstChunkMS), append(full, r.FullResponseMS)
		overhead = append(overhead, r.FirstChunkMS-r.PhaseMS["prefill"]-r.PhaseMS["decode_first_token"]-r.PhaseMS["slot_activation"])
		for phase, ms := range r.PhaseMS {
			phases[phase] = append(phases[phase], ms)
		}
	}
	c := Case{
		Case: name, Runs: len(first), FirstChunkMS: SpreadOf(first), FullResponseMS: SpreadOf(full),
		PhaseMS: map[string]Spread{}, OverheadMS: SpreadOf(overhead),
	}
	for phase, values := range phases {
		c.PhaseMS[phase] = SpreadOf(values)
	}
	return c
}

// SpreadOf is the zero value for no values at all.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{
		Min: sorted[0], Median: nearestRank(sorted, 50), P95: nearestRank(sorted, 95), Max: sorted[len(sorted)-1],
	}
}

// nearestRank is the smallest of the sorted values that at least percent of
// them do not exceed.
func nearestRank(sorted []float64, percent int) float64 {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}
