package main

import "slices"

// caseJSON sums up the runs of one case.
type caseJSON struct {
	Case           string                `json:"case"`
	Runs           int                   `json:"runs"`
	FirstChunkMS   spreadJSON            `json:"first_chunk_ms"`
	FullResponseMS spreadJSON            `json:"full_response_ms"`
	PhaseMS        map[string]spreadJSON `json:"phase_ms"`
}

// spreadJSON is how a figure varied over the runs.
type spreadJSON struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// summarise sums up the runs of a case, of which there is at least one.
func summarise(name string, runs []runJSON) caseJSON {
	var first, full []float64
	phases := map[string][]float64{}
	for _, r := range runs {
		if r.Case != name {
			continue
		}
		first, full = append(first, r.FirstChunkMS), append(full, r.FullResponseMS)
		for phase, ms := range r.PhaseMS {
			phases[phase] = append(phases[phase], ms)
		}
	}
	doc := caseJSON{
		Case: name, Runs: len(first), FirstChunkMS: spread(first), FullResponseMS: spread(full),
		PhaseMS: map[string]spreadJSON{},
	}
	for phase, values := range phases {
		doc.PhaseMS[phase] = spread(values)
	}
	return doc
}

func spread(values []float64) spreadJSON {
	slices.Sort(values)
	return spreadJSON{
		Min: values[0], Median: nearestRank(values, 50), P95: nearestRank(values, 95), Max: values[len(values)-1],
	}
}

// nearestRank is the smallest of the sorted values that at least percent of
// them do not exceed.
func nearestRank(sorted []float64, percent int) float64 {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}
