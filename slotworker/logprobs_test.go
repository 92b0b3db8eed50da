package slotworker

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// spell is a fake model that answers with these tokens and then the end.
func spell(tokens ...int32) *fakeModel {
	const prompt = 1
	return &fakeModel{answer: func(all []int32) int32 {
		if n := len(all) - prompt; n < len(tokens) {
			return tokens[max(n, 0)]
		}
		return fakeEOS
	}}
}

// ask runs one request to its end and gives its chunks in one.
func (b *bench) ask(t *testing.T, req shared.GenerateRequest) (all shared.Chunk, res shared.Result, err error) {
	t.Helper()
	req.PromptTokens = []int32{'?'}
	res, err = b.generate(t.Context(), req, time.Now(), func(c shared.Chunk) error {
		all.Text += c.Text
		all.Tokens = append(all.Tokens, c.Tokens...)
		all.Logprobs = append(all.Logprobs, c.Logprobs...)
		return nil
	})
	return all, res, err
}

func TestLogprobsFollowTheTokens(t *testing.T) {
	text := "aé🦊b" // one token a byte: most are parts of characters
	var tokens []int32
	for _, c := range []byte(text) {
		tokens = append(tokens, int32(c))
	}
	b := newBench(t, spell(tokens...), 1, 64, 16, 1)
	defer b.end(t)
	all, _, err := b.ask(t, shared.GenerateRequest{Logprobs: true, TopLogprobs: 2})
	if err != nil || all.Text != text || len(all.Logprobs) != len(tokens) {
		t.Fatalf("%q with %d logprobs, %v", all.Text, len(all.Logprobs), err)
	}
	// The fake's logits are 1 for the token and 0 for each other.
	best := float32(1 - math.Log(math.E+fakeVocab-1))
	var spelled []byte
	for i, p := range all.Logprobs {
		spelled = append(spelled, p.Bytes...)
		if p.Token != tokens[i] || math.Abs(float64(p.Logprob-best)) > 1e-6 {
			t.Errorf("token %d is %+v, want token %d with %v", i, p, tokens[i], best)
		}
		if len(p.Top) != 2 || p.Top[0].Token != p.Token || p.Top[0].Logprob != p.Logprob || p.Top[1].Token != 0 || p.Top[1].Logprob >= p.Logprob {
			t.Errorf("alternatives of token %d: %+v", i, p.Top)
		}
	}
	if string(spelled) != text {
		t.Errorf("the tokens' bytes spell %q", spelled)
	}
}

func TestLogprobsOfAStopStringAreLeftOut(t *testing.T) {
	b := newBench(t, spell('a', 'b', 'E', 'N', 'D', 'c'), 1, 64, 16, 1)
	defer b.end(t)
	all, res, err := b.ask(t, shared.GenerateRequest{Logprobs: true, Stop: []string{"END"}})
	if err != nil || all.Text != "ab" || res.Usage.CompletionTokens != 5 || len(all.Logprobs) != 2 || all.Logprobs[1].Token != 'b' {
		t.Errorf("%q, %+v, %+v, %v", all.Text, all.Logprobs, res.Usage, err)
	}
}

func TestLogprobsOnlyWhenAskedFor(t *testing.T) {
	b := newBench(t, spell('a', 'b'), 1, 64, 16, 1)
	defer b.end(t)
	if all, _, err := b.ask(t, shared.GenerateRequest{}); err != nil || all.Logprobs != nil {
		t.Errorf("%+v, %v", all.Logprobs, err)
	}
	if all, _, err := b.ask(t, shared.GenerateRequest{Logprobs: true}); err != nil || len(all.Logprobs) != 2 || all.Logprobs[0].Top != nil {
		t.Errorf("%+v, %v", all.Logprobs, err)
	}
	for _, req := range []shared.GenerateRequest{{TopLogprobs: 1}, {Logprobs: true, TopLogprobs: shared.MaxTopLogprobs + 1}, {Logprobs: true, TopLogprobs: -1}} {
		_, _, err := b.ask(t, req)
		if e := shared.AsError(err, "", ""); e == nil || e.Kind != shared.KindInvalid || e.Field != "top_logprobs" {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

func TestLikeliest(t *testing.T) {
	inf := float32(math.Inf(-1))
	logits := []float32{2, inf, 5, 2, 7, -1, 5}
	for n, want := range [][]int32{{}, {4}, {4, 2}, {4, 2, 6}, {4, 2, 6, 0}, {4, 2, 6, 0, 3}} {
		if got := likeliest(logits, n); !slices.Equal(got, want) {
			t.Errorf("%d likeliest are %v, want %v", n, got, want)
		}
	}
	p := logprob(&fakeModel{}, logits, 1, 99)
	if p.Logprob != impossible || len(p.Top) != len(logits) || p.Top[6].Logprob != impossible {
		t.Errorf("an impossible token: %+v", p)
	}
	var sum float64
	for _, a := range p.Top {
		sum += math.Exp(float64(a.Logprob))
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("probabilities add up to %v", sum)
	}
}
