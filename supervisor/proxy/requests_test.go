package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/jsongrammar"
)

func TestModels(t *testing.T) {
	c := start(t, Config{}, &fake{})
	list := as[modelList](t, c.do("GET", "/v1/models", ""))
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	if want := []string{"gpt-4o-mini", "story:F16", "story:Q8_0"}; !slices.Equal(ids, want) {
		t.Errorf("models are %v, want %v: an ambiguous name is no model", ids, want)
	}
	m := as[modelJSON](t, c.do("GET", "/v1/models/gpt-4o-mini", ""))
	if m.Identity != toIdentityJSON(identity("Q8_0")) || !slices.Equal(m.SlotIDs, []string{"q8"}) {
		t.Errorf("the alias is %+v", m)
	}
	c.do("GET", "/v1/models/none", "").wantError(t, 404, "model_not_found", "model")
}

func TestAmbiguousModelListsCandidates(t *testing.T) {
	c := start(t, Config{}, &fake{})
	for _, r := range []reply{
		c.chat(`{"model":"story","messages":[{"role":"user","content":"hi"}]}`),
		c.chat(`{"model":"story","stream":true,"messages":[{"role":"user","content":"hi"}]}`),
		c.do("GET", "/v1/models/story", ""),
	} {
		e := r.wantError(t, 404, "model_ambiguous", "precision")
		if len(e.Candidates) != 2 || e.Candidates[0].ID != "story:Q8_0" || e.Candidates[1].SlotID != "f16" {
			t.Errorf("candidates: %+v", e.Candidates)
		}
	}
}

func TestModelNames(t *testing.T) {
	c := start(t, Config{}, &fake{})
	for name, want := range map[string]string{
		"gpt-4o-mini": "q8", "story:f16": "f16", "story@" + identity("F16").ModelRevision: "f16",
	} {
		r := c.chat(`{"model":"` + name + `","messages":[{"role":"user","content":"hi"}]}`)
		body := as[struct {
			Model   string
			Timings timingsJSON
		}](t, r)
		if r.status != 200 || body.Timings.SlotID != want || body.Timings.Identity.LayoutRevision == "" || body.Model == name {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

func TestRequestReachesTheRuntime(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	c.chat(`{"model":"story:Q8_0","messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null},{"role":"user","content":"hi"}],"max_completion_tokens":9,"stop":"END","seed":5,
		"temperature":0,"logit_bias":{"7":-1.5},"user":"u","tools":[],"response_format":{"type": "text"}}`)
	r := <-seen
	if len(r.Messages) != 3 || r.Messages[0].Role != "system" || r.Messages[0].Content != "ab" || r.Messages[1].Content != "" {
		t.Errorf("messages %+v", r.Messages)
	}
	s := r.Sampling
	if r.MaxTokens != 9 || !slices.Equal(r.Stop, []string{"END"}) || s.Seed != 5 || s.Temperature != 0 || s.TopK != defaultTopK ||
		s.TopP != defaultTopP || s.MinP != defaultMinP || !slices.Equal(s.LogitBias, []shared.LogitBias{{Token: 7, Bias: -1.5}}) {
		t.Errorf("request %+v", r)
	}
	for prompt, check := range map[string]func(shared.GenerateRequest) bool{
		`"tell"`:   func(r shared.GenerateRequest) bool { return r.Prompt == "tell" && r.PromptTokens == nil },
		`["tell"]`: func(r shared.GenerateRequest) bool { return r.Prompt == "tell" && r.PromptTokens == nil },
		`[4,5]`:    func(r shared.GenerateRequest) bool { return slices.Equal(r.PromptTokens, []int32{4, 5}) },
	} {
		c.do("POST", "/v1/completions", `{"model":"story:Q8_0","prompt":`+prompt+`}`)
		if r := <-seen; !check(r) || r.MaxTokens != defaultCompletionTokens || r.Sampling.Temperature != defaultTemperature {
			t.Errorf("prompt %s: %+v", prompt, r)
		}
	}
}

func TestFormatsBecomeGrammars(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	const open = `{"model":"story:Q8_0","messages":[{"role":"user","content":"hi"}],`
	const own = `root ::= "a"`
	for body, want := range map[string]func(string) bool{
		open + `"response_format":{"type":"json_object"}}`: func(g string) bool { return g == jsongrammar.Object() },
		open + `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"const":"xyz"}}}}`: func(g string) bool {
			return strings.Contains(g, "xyz")
		},
		open + `"grammar":"root ::= \"a\""}`: func(g string) bool { return g == own },
		open + `"response_format":null}`:     func(g string) bool { return g == "" },
	} {
		c.chat(body)
		if r := <-seen; !want(r.Grammar) {
			t.Errorf("%s gives the grammar %q", body, r.Grammar)
		}
	}
	c.do("POST", "/v1/completions", `{"model":"story:Q8_0","prompt":"x","grammar":"root ::= \"a\""}`)
	if r := <-seen; r.Grammar != own {
		t.Errorf("text completion: %q", r.Grammar)
	}
}

func TestWrongRequestsAreNamed(t *testing.T) {
	c := start(t, Config{HTTPSpec: shared.HTTPSpec{MaxBody: 1 << 20}}, &fake{})
	const open = `{"model":"story:Q8_0","messages":[{"role":"user","content":"hi"}],`
	for _, bad := range []struct{ body, code, param string }{
		{open + `"tempersture":1}`, "unknown_parameter", "tempersture"},
		{open + `"tools":[{"type":"function"}]}`, "invalid_value", "tools"},
		{open + `"tools":[{"type":"custom"}]}`, "unsupported_parameter", "tools"},
		{open + `"tools":[{"type":"function","function":{"name":"a b"}}]}`, "invalid_value", "tools"},
		{open + `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","patternProperties":{}}}}]}`, "invalid_json_schema", "tools"},
		{open + `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`, "invalid_value", "tool_choice"},
		{open + `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"any"}`, "invalid_value", "tool_choice"},
		{open + `"tool_choice":"required"}`, "invalid_value", "tool_choice"},
		{open + `"tools":[{"type":"function","function":{"name":"f"}}],"response_format":{"type":"json_object"}}`, "invalid_value", "tools"},
		{open + `"functions":[{"name":"f"}]}`, "unsupported_parameter", "functions"},
		{open + `"logprobs":1}`, "invalid_type", "logprobs"},
		{open + `"top_logprobs":2}`, "invalid_value", "top_logprobs"},
		{open + `"logprobs":true,"top_logprobs":21}`, "invalid_value", "top_logprobs"},
		{open + `"response_format":{"type":"xml"}}`, "invalid_value", "response_format"},
		{open + `"response_format":{"type":"json_schema","json_schema":{"name":"x"}}}`, "invalid_value", "response_format"},
		{open + `"response_format":{"type":"json_object","json_schema":{"name":"x","schema":{}}}}`, "invalid_value", "response_format"},
		{open + `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"array","uniqueItems":true}}}}`, "invalid_json_schema", "response_format.json_schema.schema"},
		{open + `"grammar":"root ::= ("}`, "invalid_value", "grammar"},
		{open + `"grammar":"root ::= \"a\"","response_format":{"type":"json_object"}}`, "invalid_value", "grammar"},
		{open + `"grammar":"root ::= \"a\"","ignore_eos":true}`, "invalid_value", "ignore_eos"},
		{open + `"temperature":3}`, "invalid_value", "temperature"},
		{open + `"temperature":"hot"}`, "invalid_type", "temperature"},
		{open + `"max_tokens":0}`, "invalid_value", "max_tokens"},
		{open + `"n":99}`, "invalid_value", "n"},
		{open + `"stop":[""]}`, "invalid_value", "stop"},
		{open + `"logit_bias":{"x":1}}`, "invalid_value", "logit_bias"},
		{open + `"model":"story:F16"}`, "invalid_json", "model"},
		{`{"messages":[{"role":"user","content":"hi"}]}`, "missing_parameter", "model"},
		{`{"model":"story:Q8_0"}`, "missing_parameter", "messages"},
		{`{"model":"story:Q8_0","messages":[{"role":"tool","content":"hi"}]}`, "invalid_value", "messages"},
		{`{"model":"story:Q8_0","messages":[{"role":"robot","content":"hi"}]}`, "invalid_value", "messages"},
		{`{"model":"story:Q8_0","messages":[{"role":"user","content":"hi","tool_calls":[{}]}]}`, "invalid_value", "messages"},
		{`{"model":"story:Q8_0","messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"[1]"}}]}]}`, "invalid_value", "messages"},
		{`{"model":"story:Q8_0","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "unsupported_parameter", "messages"},
		{"{\"model\":\"\xff\"}", "invalid_json", "model"},
		{`{"model":"story:Q8_0"} {}`, "invalid_json", ""},
		{`[]`, "invalid_type", ""},
		{`null x`, "invalid_json", ""},
		{``, "invalid_json", ""},
	} {
		c.chat(bad.body, "Content-Type", "application/json").wantError(t, 400, bad.code, bad.param)
	}
	c.do("POST", "/v1/completions", `{"model":"story:Q8_0"}`).wantError(t, 400, "missing_parameter", "prompt")
	c.do("POST", "/v1/completions", `{"model":"story:Q8_0","prompt":["a","b"]}`).wantError(t, 400, "invalid_type", "prompt")
	c.do("POST", "/v1/completions", `{"model":"story:Q8_0","prompt":"a","echo":true}`).wantError(t, 400, "unsupported_parameter", "echo")
}

// Bytes that say they are text in another encoding would be read as other text.
func TestCharsets(t *testing.T) {
	c := start(t, Config{}, &fake{generate: think})
	ollama := `{"model":"story:q8_0",` + ollamaHi
	for _, ct := range []string{"application/json; charset=utf-16", `application/json; charset="UTF-32BE"`, "application/json;charset=iso-8859-1"} {
		c.chat(askStory, "Content-Type", ct).wantError(t, 415, "unsupported_content_type", "")
		c.do("POST", "/v1/responses", `{"model":"story:Q8_0","input":"hi"}`, "Content-Type", ct).wantError(t, 415, "unsupported_content_type", "")
		c.message(askMessage, "Content-Type", ct).wantAnthropic(t, 415, "invalid_request_error", "")
		r := c.do("POST", "/api/chat", ollama, "Content-Type", ct)
		if e := as[struct{ Error string }](t, r); r.status != 415 || !strings.Contains(e.Error, "utf-8") {
			t.Errorf("%s: %d %s", ct, r.status, r.body)
		}
	}
	for _, ct := range []string{"application/json; charset=UTF-8", "application/json; charset=us-ascii", "application/json"} {
		for path, body := range map[string]string{"/v1/chat/completions": askStory, "/v1/messages": askMessage, "/api/chat": ollama} {
			if r := c.do("POST", path, body, "Content-Type", ct, "Anthropic-Version", "2023-06-01"); r.status != 200 {
				t.Errorf("%s, %s: %d %s", path, ct, r.status, r.body)
			}
		}
	}
	if r := c.do("POST", "/api/chat", ollama, "Content-Type", "application/x-www-form-urlencoded"); r.status != 200 {
		t.Errorf("as curl sends it: %d %s", r.status, r.body)
	}
}

func TestHostileBodies(t *testing.T) {
	c := start(t, Config{}, &fake{})
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	for _, body := range []string{deep, `{"model":"story:Q8_0","tools":` + deep + `}`, `{"messages":` + strings.Repeat(`[{"content":`, 20_000)} {
		if r := c.chat(body); r.status != 400 || as[errorBody](t, r).Error.Code == "" {
			t.Errorf("deep JSON: %d %.200s", r.status, r.body)
		}
	}
	c.chat(askStory, "Content-Type", "text/plain").wantError(t, 415, "unsupported_content_type", "")
	c.chat(askStory, "Content-Type", ";;;").wantError(t, 415, "unsupported_content_type", "")
	for _, path := range []string{"/v1/nothing", "/v1/chat/completions/x", "/..%2f..%2fetc/passwd", "/page.go", "/v1/models/..%2f..", "/api/slots"} {
		r := c.do("GET", path, "")
		if r.status != 404 || as[errorBody](t, r).Error.Code == "" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	c.do("GET", "/v1/chat/completions", "").wantError(t, 405, "method_not_allowed", "")
	c.do("DELETE", "/v1/models", "").wantError(t, 404, "unknown_url", "")
	c.do("POST", "/", "{}").wantError(t, 404, "unknown_url", "")
	c.do("GET", "/v1/embeddings", "").wantError(t, 405, "method_not_allowed", "")
}

// endless is a body that never stops by itself. The transport may go on reading it
// after there is an answer, and closes it when it does no more.
type endless struct {
	left   int
	closed chan struct{}
	close  sync.Once
}

func (e *endless) Close() error {
	e.close.Do(func() { close(e.closed) })
	return nil
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = ' '
	}
	e.left -= n
	return n, nil
}

func TestHugeBody(t *testing.T) {
	c := start(t, Config{}, &fake{})
	body := &endless{left: 100 << 20, closed: make(chan struct{})}
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	<-body.closed
	if body.left < 80<<20 {
		t.Errorf("the server read on: %d bytes left", body.left)
	}
}

func TestTokenize(t *testing.T) {
	c := start(t, Config{}, &fake{})
	r := as[tokenizeReply](t, c.do("POST", "/tokenize", `{"model":"story:Q8_0","content":"four"}`))
	if !slices.Equal(r.Tokens, []int32{1, 4}) {
		t.Errorf("tokens %v", r.Tokens)
	}
	c.do("POST", "/tokenize", `{"model":"none","content":"four"}`).wantError(t, 404, "model_not_found", "model")
}

func TestTimingsOfAHit(t *testing.T) {
	for diverged, told := range map[int]bool{0: false, 3: true} {
		c := start(t, Config{}, &fake{generate: func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
			return shared.Result{DivergedAtToken: diverged}, nil
		}})
		if r := c.chat(askStory); r.status != 200 || strings.Contains(r.body, `"diverged_at_token":3`) != told || strings.Contains(r.body, "diverged_at_token") != told {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}
