package proxy

import (
	"context"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// think answers with a thought, a text and a call.
func think(_ context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	for _, c := range []shared.Chunk{
		{Reasoning: "A ", Phases: &shared.Phases{Prefill: 5}, Usage: &shared.Usage{PromptTokens: 7, CachedTokens: 4}},
		{Reasoning: "fox?", Text: "A f"},
		{Text: "ox."},
		{ToolCalls: []shared.ToolCall{{ID: "id0", Name: "now"}, {Arguments: `{"a":`}}},
		{ToolCalls: []shared.ToolCall{{Arguments: `1}`}}},
	} {
		if err := emit(c); err != nil {
			return shared.Result{}, err
		}
	}
	return shared.Result{
		FinishReason: shared.FinishTools,
		Usage:        shared.Usage{PromptTokens: 7, CachedTokens: 4, CompletionTokens: 9, ReasoningTokens: 5},
	}, nil
}

func TestReasoningInChats(t *testing.T) {
	c := start(t, Config{}, &fake{generate: think})
	type message struct {
		Content          string
		ReasoningContent string     `json:"reasoning_content"`
		ToolCalls        []callJSON `json:"tool_calls"`
	}
	type body struct {
		Choices []struct{ Delta, Message message }
		Usage   *usageJSON
	}
	whole := as[body](t, c.chat(askStory))
	m := whole.Choices[0].Message
	if m.ReasoningContent != "A fox?" || m.Content != "A fox." || len(m.ToolCalls) != 1 || whole.Usage.CompletionTokensDetails.ReasoningTokens != 5 {
		t.Errorf("%+v", whole)
	}
	var thought, said string
	var last body
	all := events(t, c.chat(askStream).body)
	for _, data := range all[:len(all)-1] {
		last = as[body](t, reply{body: data})
		for _, choice := range last.Choices {
			thought, said = thought+choice.Delta.ReasoningContent, said+choice.Delta.Content
		}
	}
	if thought != "A fox?" || said != "A fox." || last.Usage.CompletionTokensDetails.ReasoningTokens != 5 {
		t.Errorf("thought %q, said %q: %+v", thought, said, last.Usage)
	}
}

func TestReasoningGoesBack(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	c.chat(`{"model":"story:Q8_0","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho","reasoning_content":"hm"},{"role":"user","content":"ha"}]}`)
	if r := <-seen; r.Messages[1].Reasoning != "hm" || r.Messages[1].Content != "ho" {
		t.Errorf("%+v", r.Messages)
	}
	c.chat(`{"model":"story:Q8_0","messages":[{"role":"user","content":"hi","reasoning_content":"hm"}]}`).wantError(t, 400, "invalid_value", "messages")
}
