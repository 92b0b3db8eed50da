package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

const askResponse = `{"model":"story:Q8_0","input":"hi"}`

func (c client) respond(body string) reply {
	c.t.Helper()
	return c.do("POST", "/v1/responses", body)
}

// named splits a stream of events with names.
func named(t testing.TB, body string) (names, data []string) {
	t.Helper()
	frames := strings.Split(body, "\n\n")
	for _, f := range frames[:len(frames)-1] {
		name, value, ok := strings.Cut(f, "\ndata: ")
		if !ok || !strings.HasPrefix(name, "event: ") || strings.Contains(value, "\n") {
			t.Fatalf("no event: %q", f)
		}
		names, data = append(names, strings.TrimPrefix(name, "event: ")), append(data, value)
	}
	if frames[len(frames)-1] != "" {
		t.Fatalf("cut short: %q", frames[len(frames)-1])
	}
	return names, data
}

func TestResponseEvents(t *testing.T) {
	c := start(t, Config{}, &fake{generate: think})
	whole := as[responseBody](t, c.respond(askResponse))
	r := c.respond(strings.Replace(askResponse, "{", `{"stream":true,`, 1))
	if r.header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(r.header.Get("Server-Timing"), "route;dur=") {
		t.Errorf("%v", r.header)
	}
	names, data := named(t, r.body)
	want := []string{
		"response.created", "response.in_progress",
		"response.output_item.added", "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.delta",
		"response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done",
		"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done",
		"response.completed",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Fatal(diff)
	}
	// Items can be put together from the events, each in its place.
	var items []responseItem
	for i, d := range data {
		e := as[responseEvent](t, reply{body: d})
		if e.Sequence != i || e.Type != names[i] {
			t.Errorf("event %d is number %d: %s", i, e.Sequence, d)
		}
		if e.Response != nil && e.Response.Model != whole.Model {
			t.Errorf("another model's name: %s", d)
		}
		at := -1
		if e.OutputIndex != nil {
			at = *e.OutputIndex
		}
		switch e.Type {
		case "response.output_item.added":
			items = append(items, *e.Item)
			if at != len(items)-1 || e.Item.Status != statusInProgress {
				t.Errorf("%s", d)
			}
		case "response.content_part.added":
			items[at].Content = []responsePart{*e.Part}
		case "response.reasoning_text.delta", "response.output_text.delta":
			items[at].Content[*e.ContentIndex].Text += *e.Delta
		case "response.function_call_arguments.delta":
			*items[at].Arguments += *e.Delta
		case "response.output_item.done":
			items[at].Status = statusCompleted
			if diff := cmp.Diff(items[at], *e.Item); diff != "" || e.Item.ID == "" {
				t.Errorf("%s\n%s", diff, d)
			}
		}
	}
	last := as[responseEvent](t, reply{body: data[len(data)-1]}).Response
	if diff := cmp.Diff(items, last.Output); diff != "" {
		t.Error(diff)
	}
	for i := range items { // ids are of the request
		items[i].ID, whole.Output[i].ID = "", ""
	}
	if diff := cmp.Diff(items, whole.Output); diff != "" {
		t.Error(diff)
	}
	for _, b := range []responseBody{whole, *last} {
		if b.Status != statusCompleted || b.Model != "story:Q8_0" || b.Store || b.Timings.SlotID != "q8" ||
			b.Usage.InputTokensDetails.CachedTokens != 4 || b.Usage.OutputTokensDetails.ReasoningTokens != 5 || b.Usage.TotalTokens != 16 {
			t.Errorf("%+v", b)
		}
	}
}

func TestResponsesEndOnce(t *testing.T) {
	stream := strings.Replace(askResponse, "{", `{"stream":true,`, 1)
	lost := shared.Errorf(shared.KindWorkerLost, "the worker ended")
	for name, test := range map[string]struct {
		generate func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error)
		want     string
	}{
		"without text": {tell(), "response.completed"},
		"cut off": {func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
			return shared.Result{FinishReason: shared.FinishLength}, nil
		}, "response.incomplete"},
		"lost": {func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
			_, err := tell("Once")(ctx, r, emit)
			return shared.Result{}, errors.Join(lost, err)
		}, "response.failed"},
	} {
		c := start(t, Config{}, &fake{generate: test.generate})
		names, data := named(t, c.respond(stream).body)
		ends := 0
		for _, n := range names {
			if n == "response.completed" || n == "response.incomplete" || n == "response.failed" {
				ends++
			}
		}
		last := as[responseEvent](t, reply{body: data[len(data)-1]})
		if ends != 1 || last.Type != test.want || last.Type != "response."+last.Response.Status {
			t.Errorf("%s ends %d times, with %s", name, ends, data[len(data)-1])
		}
		if test.want == "response.failed" {
			if e := last.Response.Error; e == nil || e.Code != "worker_lost" || e.Message == "" {
				t.Errorf("%s", data[len(data)-1])
			}
			c.respond(askResponse).wantError(t, 503, "worker_lost", "")
		}
	}
}

func TestResponsesReachTheRuntime(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	r := c.respond(`{"model":"story:Q8_0","instructions":"Be brief.","max_output_tokens":9,"temperature":0,"top_p":0.5,"store":false,
		"metadata":{"a":"b"},"truncation":"disabled","include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":2,
		"reasoning":{"effort":null},"text":{"format":{"type":"text"}},"prompt_cache_key":"k",
		"tools":[{"type":"function","name":"now","description":null,"strict":true,"parameters":{"type":"object"}}],
		"tool_choice":{"type":"function","name":"now"},"parallel_tool_calls":false,
		"input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
		{"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null},
		{"type":"message","id":"m","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[],"logprobs":[]}]},
		{"type":"function_call","call_id":"c1","name":"now","arguments":"{}"},{"type":"function_call","id":"f","call_id":"c2","name":"now","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"noon"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"late"}]},
		{"role":"assistant","content":"Noon."},{"role":"assistant","content":"Late."},{"type":"reasoning","id":"r2","summary":[{"type":"summary_text","text":"s"}]},{"role":"user","content":"so?"}]}`)
	if r.status != 200 {
		t.Fatal(r.body)
	}
	got := <-seen
	turns := []shared.Message{
		{Role: "system", Content: "Be brief."}, {Role: "system", Content: "d"}, {Role: "user", Content: "ab"},
		{Role: "assistant", Reasoning: "hm", Content: "I look.", ToolCalls: []shared.ToolCall{
			{ID: "c1", Name: "now", Arguments: "{}"}, {Index: 1, ID: "c2", Name: "now", Arguments: "{}"}}},
		{Role: "tool", Content: "noon", ToolCallID: "c1"}, {Role: "tool", Content: "late", ToolCallID: "c2"},
		{Role: "assistant", Content: "Noon."}, {Role: "assistant", Content: "Late."}, {Role: "user", Content: "so?"},
	}
	if diff := cmp.Diff(turns, got.Messages); diff != "" {
		t.Error(diff)
	}
	if got.MaxTokens != 9 || got.Sampling.Temperature != 0 || got.Sampling.TopP != 0.5 || !got.Logprobs || got.TopLogprobs != 2 ||
		got.OnlyTool != "now" || !got.OneToolCall || len(got.Tools) != 1 || got.Tools[0].Parameters != `{"type":"object"}` {
		t.Errorf("%+v", got)
	}
	if b := as[responseBody](t, r); *b.Instructions != "Be brief." || *b.MaxOutputTokens != 9 || b.Metadata["a"] != "b" || len(b.Tools) != 1 || b.ParallelToolCalls {
		t.Errorf("%s", r.body)
	}
	c.respond(`{"model":"story:Q8_0","input":"x","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"const":"xyz"}}}}`)
	if g := (<-seen).Grammar; !strings.Contains(g, "xyz") {
		t.Errorf("grammar %q", g)
	}
}

func TestWrongResponsesAreNamed(t *testing.T) {
	c := start(t, Config{}, &fake{})
	item := func(s string) string { return `"input":[{"role":"user","content":"x"},` + s + `]` }
	for _, bad := range []struct{ body, code, param string }{
		{`"input":"x","previous_response_id":"resp_1"`, "unsupported_parameter", "previous_response_id"},
		{`"input":"x","store":true`, "unsupported_parameter", "store"},
		{`"input":"x","background":true`, "unsupported_parameter", "background"},
		{`"input":"x","conversation":"c"`, "unsupported_parameter", "conversation"},
		{`"input":"x","truncation":"auto"`, "unsupported_parameter", "truncation"},
		{`"input":"x","include":["file_search_call.results"]`, "unsupported_parameter", "include"},
		{`"input":"x","reasoning":{"effort":"high"}`, "unsupported_parameter", "reasoning.effort"},
		{`"input":"x","text":{"verbosity":"low"}`, "unsupported_parameter", "text.verbosity"},
		{`"input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"array","uniqueItems":true}}}`, "invalid_json_schema", "text.format.schema"},
		{`"input":"x","text":{"format":{"type":"xml"}}`, "invalid_value", "text.format"},
		{`"input":"x","text":{"format":{"type":"text","sch":1}}`, "unknown_parameter", "text.format.sch"},
		{`"input":"x","n":2`, "unsupported_parameter", "n"},
		{`"input":"x","max_output_tokens":0`, "invalid_value", "max_output_tokens"},
		{`"input":"x","messages":[]`, "unknown_parameter", "messages"},
		{`"input":"x","top_logprobs":2`, "invalid_value", "top_logprobs"},
		{`"input":"x","tools":[{"type":"web_search"}]`, "unsupported_parameter", "tools"},
		{`"input":"x","tools":[{"type":"function","function":{"name":"f"}}]`, "unknown_parameter", "tools.function"},
		{`"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}`, "invalid_value", "tool_choice"},
		{`"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"mcp"}`, "invalid_value", "tool_choice"},
		{`"input":7`, "invalid_type", "input"},
		{`"input":[]`, "invalid_value", "input"},
		{`"instructions":"x"`, "missing_parameter", "input"},
		{item(`{"type":"item_reference","id":"m"}`), "unsupported_parameter", "input.1"},
		{item(`{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`), "unsupported_parameter", "input.1.content"},
		{item(`{"role":"critic","content":"x"}`), "invalid_value", "input.1.role"},
		{item(`{"role":"user","content":"x","naem":"y"}`), "unknown_parameter", "input.1.naem"},
		{item(`{"type":"function_call","call_id":"c","name":"f","arguments":"{"}`), "invalid_value", "input.1"},
		{item(`{"type":"function_call_output","output":"x"}`), "missing_parameter", "input.1.call_id"},
		{item(`{"type":"function_call_output","call_id":"c"}`), "missing_parameter", "input.1.output"},
	} {
		t.Run(bad.body, func(t *testing.T) {
			c.respond(`{"model":"story:Q8_0",`+bad.body+`}`).wantError(t, 400, bad.code, bad.param)
		})
	}
	c.respond(`{"input":"x"}`).wantError(t, 400, "missing_parameter", "model")
	c.respond(`{"model":"story","input":"x"}`).wantError(t, 404, "model_ambiguous", "precision")
	long := strings.Repeat(`{"role":"user","content":"x"},`, maxMessages)
	c.respond(fmt.Sprintf(`{"model":"m","input":[%s{}]}`, long)).wantError(t, 400, "invalid_value", "input")
}
