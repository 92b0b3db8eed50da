package slotworker_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func dot(a, b []float32) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestRealEmbeddings(t *testing.T) {
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	s.prepare()
	embed := func(in ...shared.EmbedInput) [][]float32 {
		t.Helper()
		res, err := s.Embed(t.Context(), shared.EmbedRequest{Identity: s.expected, Inputs: in})
		if err != nil || len(res.Vectors) != len(in) || res.Pooling != "mean" || res.SlotID != s.spec.SlotID || res.Identity != s.expected {
			t.Fatalf("%+v, %v", res, err)
		}
		return res.Vectors
	}
	const fox, cloud = "The fox is red and quick.", "What is a slot?"
	long := strings.Repeat("The crow asked the fox. ", 25) // several steps of the engine
	tokens, err := s.Tokenize(t.Context(), shared.TokenizeRequest{Identity: s.expected, Text: fox, AddSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := s.generate(shared.GenerateRequest{Prompt: "Once upon a time", MaxTokens: 40})
	all := embed(shared.EmbedInput{Text: fox}, shared.EmbedInput{Text: cloud}, shared.EmbedInput{Text: long}, shared.EmbedInput{Tokens: tokens})
	for i, v := range all {
		if n := dot(v, v); math.Abs(n-1) > 1e-5 {
			t.Errorf("vector %d has length %v", i, math.Sqrt(n))
		}
	}
	alone := embed(shared.EmbedInput{Text: fox})[0]
	if same := dot(all[0], alone); same < 0.99999 || !slices.Equal(all[0], all[3]) {
		t.Errorf("the same text: %v alone, tokens %v", same, dot(all[0], all[3]))
	}
	if other := dot(all[0], all[1]); other > 0.999 {
		t.Errorf("other texts are as like as %v", other)
	}
	after, err := s.Status(t.Context())
	if err != nil || after.DeviceBytes <= before.DeviceBytes {
		t.Errorf("device bytes were %d, with a context for embeddings %d, %v", before.DeviceBytes, after.DeviceBytes, err)
	}

	// Both at once: the text is the same, to the token.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if _, err := s.Embed(ctx, shared.EmbedRequest{Identity: s.expected, Inputs: []shared.EmbedInput{{Text: long}}}); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		close(ended)
	}()
	for range 5 {
		if got := s.generate(shared.GenerateRequest{Prompt: "Once upon a time", MaxTokens: 40}); !slices.Equal(got.tokens, want.tokens) {
			t.Errorf("beside embeddings: %q, alone: %q", got.text, want.text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	freed, err := s.Evict(t.Context(), false)
	if err != nil || freed.DeviceBytesFreed != after.DeviceBytes {
		t.Errorf("evicting freed %d of %d, %v", freed.DeviceBytesFreed, after.DeviceBytes, err)
	}
	if _, err := s.Embed(t.Context(), shared.EmbedRequest{Identity: s.expected, Inputs: []shared.EmbedInput{{Text: fox}}}); shared.KindOf(err) != shared.KindNotResident {
		t.Errorf("on an evicted slot: %v", err)
	}
}

func TestRealDetokenize(t *testing.T) {
	s := newRealSlot(t, "q8_0", shared.TransferMmap)
	s.prepare()
	for _, text := range []string{"Once upon a time", " a fox,  twice", "größer 🦊 x", "<|im_start|>user\nhi"} {
		tokens, err := s.Tokenize(t.Context(), shared.TokenizeRequest{Identity: s.expected, Text: text, ParseSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Detokenize(t.Context(), shared.DetokenizeRequest{Identity: s.expected, Tokens: tokens})
		if err != nil || back != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}
