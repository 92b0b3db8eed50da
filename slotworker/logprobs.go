package slotworker

import (
	"cmp"
	"math"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// logprob is the account of one sampled token: what the model gave it, and what
// it gave the likeliest others. logits are read and not changed.
func logprob(m Model, logits []float32, token int32, top int) shared.TokenLogprob {
	norm := logSumExp(logits)
	t := shared.TokenLogprob{Token: token, Bytes: m.Piece(token, false), Logprob: finiteLogprob(float64(logits[token]) - norm)}
	for _, other := range likeliest(logits, top) {
		piece := m.Piece(other, false)
		if len(piece) == 0 {
			// A token that ends the text has no text of its own, but a name.
			piece = m.Piece(other, true)
		}
		t.Top = append(t.Top, shared.AlternativeLogprob{
			Token: other, Bytes: piece, Logprob: finiteLogprob(float64(logits[other]) - norm),
		})
	}
	return t
}

// logSumExp is what has to be taken from each logit to make it a log probability.
func logSumExp(logits []float32) float64 {
	best := slices.Max(logits)
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v - best))
	}
	return float64(best) + math.Log(sum)
}

// impossible stands for a probability of zero, whose logarithm JSON cannot hold.
const impossible = -9999

func finiteLogprob(v float64) float32 { return float32(max(v, impossible)) }

// likeliest are the n tokens with the highest logits, best first; of equals the
// lower id comes first.
func likeliest(logits []float32, n int) []int32 {
	n = min(n, len(logits))
	if n == 0 {
		return nil
	}
	best := make([]int32, 0, n+1)
	before := func(a, b int32) int {
		return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b))
	}
	for i, v := range logits {
		if len(best) == n && v <= logits[best[n-1]] {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, int32(i), before)
		best = slices.Insert(best, at, int32(i))
		best = best[:min(len(best), n)]
	}
	return best
}
