package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

const askMessage = `{"model":"story:Q8_0","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`

var streamMessage = strings.Replace(askMessage, "{", `{"stream":true,`, 1)

func (c client) message(body string, headers ...string) reply {
	c.t.Helper()
	return c.do("POST", "/v1/messages", body, append(headers, "Anthropic-Version", "2023-06-01")...)
}

// wantAnthropic wants Anthropic's error object.
func (r reply) wantAnthropic(t testing.TB, status int, kind, param string) {
	t.Helper()
	e := as[anthropicErrorBody](t, r)
	if r.status != status || e.Type != "error" || e.Error.Type != kind || e.Error.Param != param || e.Error.Message == "" ||
		e.RequestID == "" || r.header.Get("Request-Id") != e.RequestID {
		t.Errorf("got %d %s; want %d %q %q", r.status, r.body, status, kind, param)
	}
}

func TestMessageEvents(t *testing.T) {
	c := start(t, Config{}, &fake{generate: think})
	r := c.message(streamMessage)
	if r.header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(r.header.Get("Server-Timing"), "route;dur=") || r.header.Get("Request-Id") == "" {
		t.Errorf("%v", r.header)
	}
	names, data := named(t, r.body)
	var events []string
	var built []contentBlock
	for i, d := range data {
		e := as[struct {
			messageEvent
			Delta struct {
				Type, Text, Thinking string
				PartialJSON          string `json:"partial_json"`
				StopReason           string `json:"stop_reason"`
			} `json:"delta"`
		}](t, reply{body: d})
		if e.Type != names[i] {
			t.Errorf("event %s is called %s", d, names[i])
		}
		events = append(events, e.Type+" "+e.Delta.Type+e.Delta.StopReason)
		switch e.Type {
		case "message_start":
			m := e.Message
			if m.Model != "story:Q8_0" || len(m.Content) != 0 || m.StopReason != nil || m.Usage.InputTokens != 3 || m.Usage.CacheReadInputTokens != 4 || m.Usage.OutputTokens != 0 {
				t.Errorf("%s", d)
			}
		case "content_block_start":
			if *e.Index != len(built) {
				t.Errorf("%s", d)
			}
			built = append(built, *e.ContentBlock)
		case "content_block_delta":
			b := &built[*e.Index]
			switch b.Type {
			case "text":
				*b.Text += e.Delta.Text
			case "thinking":
				*b.Thinking += e.Delta.Thinking
			default:
				b.Input = append([]byte(strings.TrimPrefix(string(b.Input), "{}")), e.Delta.PartialJSON...)
			}
		case "message_delta":
			if e.Usage.InputTokens != 3 || e.Usage.OutputTokens != 9 {
				t.Errorf("%s", d)
			}
		case "message_stop":
			if e.Timings.SlotID != "q8" || len(e.Timings.PhaseMS) != 8 {
				t.Errorf("%s", d)
			}
		}
	}
	want := []string{
		"message_start ",
		"content_block_start ", "content_block_delta thinking_delta", "content_block_delta thinking_delta", "content_block_stop ",
		"content_block_start ", "content_block_delta text_delta", "content_block_delta text_delta", "content_block_stop ",
		"content_block_start ", "content_block_delta input_json_delta", "content_block_delta input_json_delta", "content_block_stop ",
		"message_delta tool_use", "message_stop ",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	whole := as[messageBody](t, c.message(askMessage))
	if diff := cmp.Diff(built, whole.Content); diff != "" || len(built) != 3 || string(built[2].Input) != `{"a":1}` || *built[1].Text != "A fox." {
		t.Errorf("%+v\n%s", built, diff)
	}
	if *whole.StopReason != "tool_use" || whole.Model != "story:Q8_0" || whole.Timings.SlotID != "q8" || whole.Usage.OutputTokens != 9 {
		t.Errorf("%+v", whole)
	}
}

func TestMessagesEndOnce(t *testing.T) {
	lost := shared.Errorf(shared.KindWorkerLost, "the worker ended")
	with := func(res shared.Result, err error, chunks ...shared.Chunk) func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
		return func(_ context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
			for _, c := range chunks {
				err = errors.Join(err, emit(c))
			}
			return res, err
		}
	}
	cut := shared.Chunk{ToolCalls: []shared.ToolCall{{ID: "a", Name: "f"}, {Arguments: `{"a":`}}}
	for name, test := range map[string]struct {
		generate     func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error)
		ending, stop string
	}{
		"without text": {with(shared.Result{FinishReason: shared.FinishStop}, nil), "message_stop", "end_turn"},
		"at a stop":    {with(shared.Result{FinishReason: shared.FinishStop, StopString: "END"}, nil), "message_stop", "stop_sequence"},
		"cut off":      {with(shared.Result{FinishReason: shared.FinishLength}, nil, cut), "message_stop", "max_tokens"},
		"lost":         {with(shared.Result{}, lost, shared.Chunk{Text: "x"}), "error", ""},
	} {
		c := start(t, Config{}, &fake{generate: test.generate})
		names, data := named(t, c.message(streamMessage).body)
		ends := 0
		for i, n := range names {
			if n == "message_stop" || n == "error" {
				ends++
			}
			if n == "message_delta" && !strings.Contains(data[i], `"stop_reason":"`+test.stop+`"`) {
				t.Errorf("%s: %s", name, data[i])
			}
		}
		if ends != 1 || names[0] != "message_start" || names[len(names)-1] != test.ending {
			t.Errorf("%s: %v", name, names)
		}
		r := c.message(askMessage)
		if test.ending == "error" {
			if e := as[anthropicErrorBody](t, reply{body: data[len(data)-1]}); e.Type != "error" || e.Error.Type != "api_error" || e.Error.Code != "worker_lost" {
				t.Errorf("%s", data[len(data)-1])
			}
			r.wantAnthropic(t, 503, "api_error", "")
			if r.header.Get("Retry-After") == "" {
				t.Errorf("%v", r.header)
			}
			continue
		}
		if b := as[messageBody](t, r); *b.StopReason != test.stop || (b.StopSequence != nil) != (test.stop == "stop_sequence") {
			t.Errorf("%s: %s", name, r.body)
		}
	}
}

func TestMessagesReachTheRuntime(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	const mark = `"cache_control":{"type":"ephemeral"}`
	body := `{"model":"story:Q8_0","max_tokens":9,"temperature":0,"top_k":7,"top_p":0.5,"stop_sequences":["END"],"metadata":{"user_id":"u"},
		"thinking":{"type":"disabled"},` + mark + `,"system":[{"type":"text","text":"Be brief.",` + mark + `},{"type":"text","text":"Be kind."}],
		"tools":[{"name":"now","description":"d","input_schema":{"type":"object"},` + mark + `},{"type":"custom","name":"f","input_schema":{"type":"object"}}],
		"tool_choice":{"type":"tool","name":"now","disable_parallel_tool_use":true},
		"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"user","content":"c"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},
			{"type":"tool_use","id":"t1","name":"now","input":{"z":1}},{"type":"tool_use","id":"t2","name":"now","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"noon"},
			{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"late"}]},{"type":"text","text":"so?"}]}]}`
	if r := c.message(body); r.status != 200 {
		t.Fatal(r.body)
	}
	got := <-seen
	turns := []shared.Message{
		{Role: "system", Content: "Be brief.\nBe kind."}, {Role: "user", Content: "a\nb\nc"},
		{Role: "assistant", Reasoning: "hm", Content: "I look.", ToolCalls: []shared.ToolCall{
			{ID: "t1", Name: "now", Arguments: `{"z":1}`}, {Index: 1, ID: "t2", Name: "now", Arguments: "{}"}}},
		{Role: "tool", Content: "noon", ToolCallID: "t1"}, {Role: "tool", Content: "late", ToolCallID: "t2"}, {Role: "user", Content: "so?"},
	}
	if diff := cmp.Diff(turns, got.Messages); diff != "" {
		t.Error(diff)
	}
	if s := got.Sampling; got.MaxTokens != 9 || s.Temperature != 0 || s.TopK != 7 || s.TopP != 0.5 || got.Stop[0] != "END" || !got.NoThinking ||
		got.OnlyTool != "now" || !got.OneToolCall || len(got.Tools) != 2 || got.Tools[0].Description != "d" {
		t.Errorf("%+v", got)
	}
	c.message(strings.Replace(askMessage, "{", `{"output_config":{"format":{"type":"json_schema","schema":{"const":"xyz"}}},"thinking":{"type":"enabled","budget_tokens":1024},`, 1))
	if r := <-seen; !strings.Contains(r.Grammar, "xyz") || r.NoThinking {
		t.Errorf("%+v", r)
	}
	for choice, want := range map[string]string{"any": shared.ToolRequired, "auto": ""} {
		c.message(strings.Replace(askMessage, "{", `{"tools":[{"name":"now","input_schema":{"type":"object"}}],"tool_choice":{"type":"`+choice+`"},`, 1))
		if r := <-seen; r.ToolChoice != want || len(r.Tools) != 1 {
			t.Errorf("%s: %+v", choice, r)
		}
	}
	// The same prompt is counted, without what is said of the answer.
	var count map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &count); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"max_tokens", "temperature", "top_k", "top_p", "stop_sequences", "metadata"} {
		delete(count, name)
	}
	b, _ := json.Marshal(count)
	if r := c.do("POST", "/v1/messages/count_tokens", string(b)); r.status != 200 || as[countReply](t, r).InputTokens != 62 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestWrongMessagesAreNamed(t *testing.T) {
	c := start(t, Config{}, &fake{})
	block := func(role, s string) string {
		return `"messages":[{"role":"user","content":"x"},{"role":"` + role + `","content":[` + s + `]},{"role":"user","content":"x"}]`
	}
	const hi = `"messages":[{"role":"user","content":"x"}]`
	for _, bad := range []struct{ body, param string }{
		{hi + `,"tempersture":1`, "tempersture"},
		{hi + `,"container":"c"`, "container"},
		{hi + `,"mcp_servers":[{"type":"url"}]`, "mcp_servers"},
		{hi + `,"output_config":{"effort":"high"}`, "output_config.effort"},
		{hi + `,"output_config":{"format":{"type":"json_schema","schema":{"type":"array","uniqueItems":true}}}`, "output_config.format.schema"},
		{hi + `,"thinking":{"type":"deep"}`, "thinking"},
		{hi + `,"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"}`, "thinking.display"},
		{hi + `,"stop_sequences":[""]`, "stop_sequences"},
		{hi + `,"temperature":3`, "temperature"},
		{hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "tools"},
		{hi + `,"tools":[{"name":"f","input_schema":{"type":"object","patternProperties":{}}}]`, "tools"},
		{hi + `,"tools":[{"name":"f","input_schema":{"type":"object"},"defer_loading":true}]`, "tools.defer_loading"},
		{hi + `,"tool_choice":{"type":"any"}`, "tool_choice"},
		{hi + `,"tool_choice":{"type":"tool","name":"f"}`, "tool_choice"},
		{hi + `,"tool_choice":"any"`, "tool_choice"},
		{hi + `,"system":[{"type":"image"}]`, "system.0"},
		{`"messages":[]`, "messages"},
		{`"messages":[{"role":"system","content":"x"}]`, "messages.0.role"},
		{`"messages":[{"role":"user","content":[]}]`, "messages.0.content"},
		{`"messages":[{"role":"user"}]`, "messages.0.content"},
		{`"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"I"}]`, "messages"},
		{block("user", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}`), "messages.1.content.0"},
		{block("user", `{"type":"document","source":{}}`), "messages.1.content.0"},
		{block("user", `{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}`), "messages.1.content.0.content.0"},
		{block("user", `{"type":"tool_result","content":"x"}`), "messages.1.content.0.tool_use_id"},
		{block("user", `{"type":"tool_use","id":"t","name":"f","input":{}}`), "messages.1.content.0"},
		{block("assistant", `{"type":"tool_use","id":"t","name":"f","input":[]}`), "messages.1.content.0"},
		{block("assistant", `{"type":"redacted_thinking","data":"x"}`), "messages.1.content.0"},
		{block("assistant", `{"type":"text","text":"x","citations":[{"type":"char_location"}]}`), "messages.1.content.0.citations"},
	} {
		t.Run(bad.body, func(t *testing.T) {
			c.message(`{"model":"story:Q8_0","max_tokens":9,`+bad.body+`}`).wantAnthropic(t, 400, "invalid_request_error", bad.param)
		})
	}
	c.message(`{"model":"story:Q8_0",`+hi+`}`).wantAnthropic(t, 400, "invalid_request_error", "max_tokens")
	c.message(`{"max_tokens":1,`+hi+`}`).wantAnthropic(t, 400, "invalid_request_error", "model")
	c.message(`{"model":"story","max_tokens":1,`+hi+`}`).wantAnthropic(t, 404, "not_found_error", "precision")
	c.do("POST", "/v1/messages/count_tokens", `{"model":"story:Q8_0","messages":[]}`).wantAnthropic(t, 400, "invalid_request_error", "messages")
	c.do("POST", "/v1/messages/count_tokens", `{"model":"nobody",`+hi+`}`).wantAnthropic(t, 404, "not_found_error", "model")
	c.do("GET", "/v1/messages", "").wantAnthropic(t, 405, "invalid_request_error", "")
	c.do("POST", "/v1/messages/batches", "{}").wantAnthropic(t, 404, "not_found_error", "")
	c.do("POST", "/v1/messages", strings.Repeat(" ", 9<<20)).wantAnthropic(t, 413, "request_too_large", "")
}

func TestMessagesNeedAKey(t *testing.T) {
	c := start(t, Config{HTTPSpec: shared.HTTPSpec{APIKeys: []string{"secret"}}}, &fake{})
	c.message(askMessage).wantAnthropic(t, 401, "authentication_error", "")
	c.message(askMessage, "Authorization", "secret").wantAnthropic(t, 401, "authentication_error", "")
	for _, key := range [][]string{{"X-Api-Key", "secret"}, {"Authorization", "Bearer secret"}, {"Authorization", "Bearer other", "X-Api-Key", "secret"}} {
		if r := c.message(askMessage, key...); r.status != 200 {
			t.Errorf("%v: %d %s", key, r.status, r.body)
		}
	}
}
