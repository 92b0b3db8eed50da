package slotworker

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// embedding is a fake resident model that embeds texts of up to tokens.
func embedding(t *testing.T, model *fakeModel, tokens int) *resident {
	t.Helper()
	r := &resident{spec: shared.SlotSpec{SlotID: "slot", ContextTokens: tokens}, model: model, vocab: fakeVocab}
	r.embedder = startEmbedder(model, ContextConfig{TokensPerSequence: tokens, Sequences: 4, BatchTokens: 999}, 1, new(atomic.Uint64), func(error) {})
	t.Cleanup(func() {
		r.embedder.close()
		if n := model.open.Load(); n != 0 {
			t.Errorf("%d contexts are still open", n)
		}
	})
	return r
}

func inputs(texts ...string) shared.EmbedRequest {
	var req shared.EmbedRequest
	for _, text := range texts {
		req.Inputs = append(req.Inputs, shared.EmbedInput{Tokens: bytesAsTokens(text)})
	}
	return req
}

func bytesAsTokens(text string) []int32 {
	var tokens []int32
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens
}

// unit scales a vector to length 1.
func unit(v ...float64) []float32 {
	var square float64
	for _, x := range v {
		square += x * x
	}
	var out []float32
	for _, x := range v {
		out = append(out, float32(x/math.Sqrt(square)))
	}
	return out
}

func TestEmbedPools(t *testing.T) {
	long := strings.Repeat("a", 2*embedChunk+1)
	n := float64(len(long))
	// A vector is token, position and 1.
	for pooling, want := range map[string][][]float32{
		"":     {unit(('a'+'c')/2.0, 0.5, 1), unit('a', (n-1)/2, 1)},
		"none": {unit(('a'+'c')/2.0, 0.5, 1), unit('a', (n-1)/2, 1)},
		"mean": {unit(('a'+'c')/2.0, 0.5, 1), unit('a', (n-1)/2, 1)},
		"last": {unit('c', 1, 1), unit('a', n-1, 1)},
		"cls":  {unit('a', 0, 1), unit('a', 0, 1)},
	} {
		r := embedding(t, &fakeModel{info: ModelInfo{Pooling: pooling}}, 256)
		res, err := r.embed(t.Context(), inputs("ac", long))
		if err != nil || len(res.Vectors) != 2 || res.PromptTokens != 2+len(long) {
			t.Fatalf("%s: %+v, %v", pooling, res, err)
		}
		for i, v := range res.Vectors {
			for at := range v {
				if math.Abs(float64(v[at]-want[i][at])) > 1e-6 {
					t.Errorf("%s: vector %d is %v, want %v", pooling, i, v, want[i])
					break
				}
			}
		}
	}
}

func TestEmbedErrors(t *testing.T) {
	model := &fakeModel{}
	r := embedding(t, model, 64)
	want := func(kind shared.Kind, req shared.EmbedRequest) {
		t.Helper()
		if _, err := r.embed(t.Context(), req); shared.KindOf(err) != kind {
			t.Errorf("got %v, want %v", err, kind)
		}
	}
	good := inputs("abc")
	want(shared.KindInvalid, shared.EmbedRequest{})
	want(shared.KindInvalid, inputs("abc", ""))
	want(shared.KindInvalid, shared.EmbedRequest{Inputs: []shared.EmbedInput{{Tokens: []int32{1, fakeVocab}}}})
	want(shared.KindContextTooLong, inputs("abc", strings.Repeat("a", 65)))
	model.decodeHook = func([]Row) error { return ErrDecodeFailed }
	want(shared.KindEngine, good)
	model.decodeHook = nil
	model.embedHook = func([]int32) []float32 { return nil }
	want(shared.KindUnsupported, good)
	model.embedHook = func([]int32) []float32 { return []float32{0, 0} }
	want(shared.KindEngine, good)
	model.embedHook = nil
	model.removeHook = func(int32) bool { return false }
	for range 2 {
		if res, err := r.embed(t.Context(), inputs("abc", "d")); err != nil || len(res.Vectors) != 2 {
			t.Errorf("in a context that cannot be cleared: %+v, %v", res, err)
		}
	}
	model.removeHook = nil
	model.info.Pooling = "rank"
	want(shared.KindUnsupported, good)
	model.info.Pooling = ""

	ctx, cancel := context.WithCancel(t.Context())
	model.decodeHook = func([]Row) error { cancel(); return nil }
	if _, err := r.embed(ctx, inputs("a", "b")); shared.KindOf(err) != shared.KindCancelled {
		t.Errorf("cancelled: %v", err)
	}
	model.decodeHook = nil
	if res, err := r.embed(t.Context(), good); err != nil || len(res.Vectors) != 1 {
		t.Errorf("afterwards: %+v, %v", res, err)
	}
}

// TestEmbedQueueIsBounded lets two calls in, one that runs and one that waits.
func TestEmbedQueueIsBounded(t *testing.T) {
	model, entered, hold := &fakeModel{}, make(chan struct{}, 2), make(chan struct{})
	model.decodeHook = func([]Row) error { entered <- struct{}{}; <-hold; return nil }
	r := embedding(t, model, 64)
	ended := make(chan error, 2)
	for range 2 {
		go func() { _, err := r.embed(t.Context(), inputs("abc")); ended <- err }()
	}
	wait(t, entered)
	eventually(t, func() bool { return r.embedder.waiting.Load() == 2 })
	if _, err := r.embed(t.Context(), inputs("abc")); shared.KindOf(err) != shared.KindBusy {
		t.Errorf("a third call: %v", err)
	}
	close(hold)
	for range 2 {
		if err := wait(t, ended); err != nil {
			t.Error(err)
		}
	}
}

func TestDetokenizeUndoesTokenize(t *testing.T) {
	r := &resident{model: &fakeModel{}, vocab: fakeVocab}
	if text, err := r.detokenize([]int32{fakeBOS, ' ', 'h', 'i', fakeEOS}); err != nil || text != "<s> hi</s>" {
		t.Errorf("%q, %v", text, err)
	}
	r.addsSpace = true
	for _, tokens := range [][]int32{{' ', 'h', ' ', 'i'}, {'h', ' ', 'i'}} {
		if text, err := r.detokenize(tokens); err != nil || text != "h i" {
			t.Errorf("%q, %v", text, err)
		}
	}
	if text, err := r.detokenize([]int32{fakeBOS, ' ', 'h'}); err != nil || text != "<s>h" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := r.detokenize([]int32{'h', 0xC3}); err != nil || !slices.Equal([]rune(text), []rune{'h', 0xFFFD}) {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := r.detokenize([]int32{1, -1}); shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("an unknown token: %v", err)
	}
}
