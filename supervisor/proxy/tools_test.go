package proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

// tellCalls asks for two calls, one in pieces.
func tellCalls(_ context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	for _, c := range []shared.Chunk{
		{ToolCalls: []shared.ToolCall{{ID: "id0", Name: "weather"}, {Arguments: `{"city":`}}, Phases: &shared.Phases{Prefill: 5}},
		{ToolCalls: []shared.ToolCall{{Arguments: `"x"}`}, {Index: 1, ID: "id1", Name: "now"}}},
		{ToolCalls: []shared.ToolCall{{Index: 1, Arguments: `{}`}}},
	} {
		if err := emit(c); err != nil {
			return shared.Result{}, err
		}
	}
	return shared.Result{FinishReason: shared.FinishTools}, nil
}

const offerTools = `,"tools":[{"type":"function","function":{"name":"weather","description":"d","strict":true,"parameters":{"type":"object"}}},` +
	`{"type":"function","function":{"name":"now"}}]`

func TestToolCalls(t *testing.T) {
	c := start(t, Config{}, &fake{generate: tellCalls})
	open := strings.TrimSuffix(askStory, "}") + offerTools
	want := `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[` +
		`{"id":"id0","type":"function","function":{"name":"weather","arguments":"{\"city\":\"x\"}"}},` +
		`{"id":"id1","type":"function","function":{"name":"now","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"`
	if r := c.chat(open + `}`); !strings.Contains(r.body, want) {
		t.Error(cmp.Diff(want, r.body))
	}
	r := c.chat(open + `,"stream":true}`)
	for _, want := range []string{
		`"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"id0","type":"function","function":{"name":"weather","arguments":""}},{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
		`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"x\"}"}},{"index":1,"id":"id1","type":"function","function":{"name":"now","arguments":""}}]}`,
		`"finish_reason":"tool_calls"`, `"first_chunk_ms":`, "data: [DONE]",
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("%s is missing in %s", want, r.body)
		}
	}
	if !strings.Contains(r.header.Get("Server-Timing"), "prefill") {
		t.Error("a call is no first frame")
	}
}

func TestToolsReachTheRuntime(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	tools := []shared.Tool{{Name: "weather", Description: "d", Parameters: `{"type":"object"}`}, {Name: "now"}}
	for more, want := range map[string]shared.GenerateRequest{
		``:                      {Tools: tools},
		`,"tool_choice":"none"`: {},
		`,"tool_choice":"auto"`: {Tools: tools},
		`,"tool_choice":"required","parallel_tool_calls":false`:        {Tools: tools, ToolChoice: shared.ToolRequired, OneToolCall: true},
		`,"tool_choice":{"type":"function","function":{"name":"now"}}`: {Tools: tools, ToolChoice: shared.ToolRequired, OnlyTool: "now"},
	} {
		c.chat(`{"model":"story:Q8_0","messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"now","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"noon"}]` + offerTools + more + `}`)
		r := <-seen
		got := shared.GenerateRequest{Tools: r.Tools, ToolChoice: r.ToolChoice, OnlyTool: r.OnlyTool, OneToolCall: r.OneToolCall}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", more, diff)
		}
		turns := []shared.Message{{Role: "user", Content: "hi"},
			{Role: "assistant", ToolCalls: []shared.ToolCall{{ID: "a", Name: "now", Arguments: "{}"}}},
			{Role: "tool", Content: "noon", ToolCallID: "a"}}
		if diff := cmp.Diff(turns, r.Messages); diff != "" {
			t.Errorf("messages:\n%s", diff)
		}
	}
}
