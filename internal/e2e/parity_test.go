package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// prompts are questions of many lengths, some longer than a chunk.
func prompts() []string {
	heroes := []string{"fox", "owl", "bear", "cat", "rabbit", "duck", "mouse", "dragon", "robot", "whale"}
	forms := []string{
		"Tell me a story about a %s.",
		"Write a story with a %s and a map.",
		"What is a slot? And what would a %s do with it?",
		"Hello! Do you know a %s? It lives by the river, it has a boat, and it never went far from home until today. What then?",
		"Explain eviction to a %s. The %[1]s is patient and likes long explanations with many words, it has heard of prefill, of slots, " +
			"of pages and of buffers, it has seen a map and a boat, it has a friend called Ella who is a duck, and it wants to hear how " +
			"a server that has no room left chooses whom to ask to leave, and how it feels for the one who is asked, and for the others.",
	}
	var all []string
	for _, form := range forms {
		for _, hero := range heroes[:len(heroes)/share] {
			all = append(all, fmt.Sprintf(form, hero))
		}
	}
	return all
}

// TestAnswersEqualTheEngine wants the same tokens over two processes and two
// RPCs as from the engine in this process.
func TestAnswersEqualTheEngine(t *testing.T) {
	const answer = 32
	files := map[string]string{"q8": "storyteller-q8_0.gguf", "f16": "storyteller-f16.gguf"}
	for _, name := range []string{"q8", "f16"} {
		t.Run(name, func(t *testing.T) {
			frontend := attached(t,
				spec(t, name+"-mmap", files[name], shared.TransferMmap),
				spec(t, name+"-pageable", files[name], shared.TransferPageable))
			own := direct(t, files[name])
			multiple := 0
			for _, prompt := range prompts() {
				tokens := tokenized(t, frontend, name+"-mmap", prompt)
				if len(tokens) > slotChunk {
					multiple++
				}
				want := own.greedy(tokens, answer, func() {})
				for _, transfer := range []string{"mmap", "pageable"} {
					got := answered(t, frontend, name+"-"+transfer, prompt, answer)
					if !slices.Equal(got, want) {
						t.Errorf("%s, %q:\n got %v\nwant %v", transfer, prompt, got, want)
					}
				}
			}
			if multiple == 0 {
				t.Error("no prompt is longer than a chunk")
			}
		})
	}
}

func tokenized(t testing.TB, f shared.Frontend, slot, prompt string) []int32 {
	t.Helper()
	want := shared.Requirement{SlotID: slot}
	text, err := f.ApplyTemplate(t.Context(), shared.ApplyTemplateRequest{
		Requirement: want, Messages: []shared.Message{{Role: "user", Content: prompt}}, AddGenerationPrompt: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.Tokenize(t.Context(), shared.TokenizeRequest{Requirement: want, Text: text, ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func answered(t testing.TB, f shared.Frontend, slot, prompt string, n int) []int32 {
	t.Helper()
	var tokens []int32
	_, err := f.Generate(t.Context(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: slot}, MaxTokens: n,
		Messages: []shared.Message{{Role: "user", Content: prompt}},
	}, func(c shared.Chunk) error {
		tokens = append(tokens, c.Tokens...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
