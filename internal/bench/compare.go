package bench

import (
	"slices"
)

// Comparison is one measure of both sides of a comparison, taken in pairs: what
// a machine does besides meets both halves of a pair alike.
type Comparison struct {
	Peer string `json:"peer"`
	Case string `json:"case"`
	// Measure is first_chunk_ms, engine_ms, overhead_ms, wall_ms or
	// tokens_per_second. More is better for the last one only.
	Measure string `json:"measure"`
	Ours    Spread `json:"ours"`
	Theirs  Spread `json:"theirs"`
	// Ratio is ours to theirs, pair by pair.
	Ratio Ratio  `json:"ratio"`
	Pairs []Pair `json:"pairs,omitempty"`
	// Why there are no pairs.
	NotComparable string `json:"not_comparable,omitempty"`
}

// Pair is one measurement of each side, right after each other.
type Pair struct {
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
}

// Ratio is how ratios spread over the pairs.
type Ratio struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	P25    float64 `json:"p25"`
	P75    float64 `json:"p75"`
	Max    float64 `json:"max"`
}

// The measures.
const (
	FirstChunk      = "first_chunk_ms"
	FirstChunkP95   = "first_chunk_p95_ms"
	EngineTime      = "engine_ms"
	Overhead        = "overhead_ms"
	Wall            = "wall_ms"
	TokensPerSecond = "tokens_per_second"
)

// MoreIsBetter reports whether a higher value of a measure is the better one.
func MoreIsBetter(measure string) bool { return measure == TokensPerSecond }

// Compare makes the account of pairs. Pairs in which a side has no figure, such
// as the engine time of a server that does not tell it, do not count.
func Compare(peer, name, measure string, pairs []Pair) Comparison {
	c := Comparison{Peer: peer, Case: name, Measure: measure}
	var ours, theirs, ratios []float64
	for _, p := range pairs {
		if p.Ours <= 0 || p.Theirs <= 0 {
			continue
		}
		c.Pairs = append(c.Pairs, p)
		ours, theirs, ratios = append(ours, p.Ours), append(theirs, p.Theirs), append(ratios, p.Ours/p.Theirs)
	}
	if len(c.Pairs) == 0 {
		c.NotComparable = "no pair has a figure of both sides"
		return c
	}
	c.Ours, c.Theirs = SpreadOf(ours), SpreadOf(theirs)
	slices.Sort(ratios)
	c.Ratio = Ratio{
		Median: nearestRank(ratios, 50), Min: ratios[0], P25: nearestRank(ratios, 25),
		P75: nearestRank(ratios, 75), Max: ratios[len(ratios)-1],
	}
	return c
}
