package slotworker

import (
	"context"
	"math"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Ways to make one vector of a text from those of its tokens.
const (
	poolMean = "mean"
	poolLast = "last"
	poolCLS  = "cls" // the first token's
)

// Embed turns texts into vectors of length 1.
func (w *Worker) Embed(ctx context.Context, req shared.EmbedRequest) (shared.EmbedResult, error) {
	arrived := time.Now()
	r, ctx, end, err := w.begin(ctx, req.Identity, arrived, req.Deadline)
	if err != nil {
		return shared.EmbedResult{}, shared.AsError(err, "embed", w.owner.mirror.Load().slotID)
	}
	defer end()
	res, err := r.embed(ctx, req)
	if err != nil {
		return shared.EmbedResult{}, shared.AsError(err, "embed", r.spec.SlotID)
	}
	res.SlotID, res.Model, res.Identity = r.spec.SlotID, r.spec.Model, r.identity
	return res, nil
}

func (r *resident) embed(ctx context.Context, req shared.EmbedRequest) (shared.EmbedResult, error) {
	res := shared.EmbedResult{Pooling: r.model.Info().Pooling}
	switch res.Pooling {
	case "", "none":
		res.Pooling = poolMean
	case poolMean, poolLast, poolCLS:
	default:
		return res, shared.Errorf(shared.KindUnsupported, "the model's vectors are pooled by %q, which gives no embedding of a text", res.Pooling)
	}
	texts, err := r.embedTokens(req.Inputs)
	if err != nil {
		return res, err
	}
	for _, tokens := range texts {
		res.PromptTokens += len(tokens)
	}
	res.Vectors, err = r.embedder.run(ctx, &embedJob{ctx: ctx, texts: texts, pooling: res.Pooling})
	return res, err
}

// embedTokens makes tokens of all inputs before anything is computed.
func (r *resident) embedTokens(inputs []shared.EmbedInput) ([][]int32, error) {
	if len(inputs) == 0 || len(inputs) > shared.MaxEmbedInputs {
		return nil, invalid("input", "%d inputs are not between 1 and %d", len(inputs), shared.MaxEmbedInputs)
	}
	var texts [][]int32
	for i, in := range inputs {
		tokens := in.Tokens
		if in.Text != "" {
			var err error
			// Markup in a text that is only measured is text.
			if tokens, err = r.tokenize(in.Text, true, false); err != nil {
				return nil, err
			}
		}
		if at := r.unknownToken(tokens); at >= 0 {
			return nil, invalid("input", "input %d: token %d at position %d is not in the vocabulary of %d tokens", i, tokens[at], at, r.vocab)
		}
		if len(tokens) == 0 || in.Text != "" && len(in.Tokens) > 0 {
			return nil, invalid("input", "input %d: exactly one of text and tokens has to be given", i)
		}
		if limit := r.spec.ContextTokens; len(tokens) > limit {
			return nil, shared.Errorf(shared.KindContextTooLong, "input %d has %d tokens; slot %s has a context of %d", i, len(tokens), r.spec.SlotID, limit)
		}
		texts = append(texts, tokens)
	}
	return texts, nil
}

// pool is the running sum of a text's vectors.
type pool struct {
	kind  string
	sum   []float64
	count int
}

func (p *pool) add(v []float32) {
	if p.sum == nil {
		p.sum = make([]float64, len(v))
	}
	p.count++
	switch {
	case p.kind == poolCLS && p.count > 1:
	case p.kind == poolLast:
		for i, x := range v {
			p.sum[i] = float64(x)
		}
	default:
		for i, x := range v {
			p.sum[i] += float64(x)
		}
	}
}

// unit is the pooled vector with length 1; false when it has no direction. The
// mean and the sum have the same one.
func (p *pool) unit() ([]float32, bool) {
	var square float64
	for _, x := range p.sum {
		square += x * x
	}
	length := math.Sqrt(square)
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, false
	}
	out := make([]float32, len(p.sum))
	for i, x := range p.sum {
		out[i] = float32(x / length)
	}
	return out, true
}
