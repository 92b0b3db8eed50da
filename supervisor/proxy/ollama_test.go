package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// line is a line of an answer as a client reads it.
type line struct {
	Model      string
	CreatedAt  time.Time `json:"created_at"`
	Response   *string
	Thinking   string
	Done       bool
	DoneReason string `json:"done_reason"`
	Error      string
	Message    *struct {
		Role, Content string
		Thinking      string
		ToolCalls     []ollamaCall `json:"tool_calls"`
	}
	Logprobs        []struct{ Token string }
	TotalDuration   int64 `json:"total_duration"`
	LoadDuration    int64 `json:"load_duration"`
	PromptEvalCount int   `json:"prompt_eval_count"`
	EvalCount       int   `json:"eval_count"`
	EvalDuration    int64 `json:"eval_duration"`
}

func lines(t *testing.T, r reply) []line {
	t.Helper()
	if ct := r.header.Get("Content-Type"); ct != "application/x-ndjson" {
		t.Fatalf("content type %q: %s", ct, r.body)
	}
	var out []line
	scan := bufio.NewScanner(strings.NewReader(r.body))
	for scan.Scan() {
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatalf("%v: %s", err, scan.Text())
		}
		out = append(out, l)
	}
	return out
}

const ollamaHi = `"messages":[{"role":"user","content":"hi"}]}`

func TestOllamaChatStreams(t *testing.T) {
	c := start(t, Config{}, &fake{})
	got := lines(t, c.do("POST", "/api/chat", `{"model":"story:q8_0",`+ollamaHi))
	var text string
	for i, l := range got {
		if l.Model != "story:q8_0" || l.CreatedAt.IsZero() || l.Message == nil || l.Message.Role != "assistant" || l.Response != nil || l.Done != (i == 3) {
			t.Errorf("line %d: %+v", i, l)
		}
		text += l.Message.Content
	}
	last := got[len(got)-1]
	if text != "Once upon a time" || len(got) != 4 || last.DoneReason != "stop" || last.PromptEvalCount != 7 || last.EvalCount != 3 ||
		last.EvalDuration != int64(time.Millisecond) || last.TotalDuration <= 0 || last.LoadDuration < 5 || last.LoadDuration > last.TotalDuration {
		t.Errorf("%q %+v", text, last)
	}
	whole := c.do("POST", "/api/generate", `{"model":"gpt-4o-mini:latest","prompt":"x","stream":false}`, "Content-Type", "application/x-www-form-urlencoded")
	l := as[line](t, whole)
	if l.Response == nil || *l.Response != "Once upon a time" || !l.Done || l.Message != nil || l.EvalCount != 3 {
		t.Errorf("%s", whole.body)
	}
}

func TestOllamaRequestReachesTheRuntime(t *testing.T) {
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return tell("x")(ctx, r, emit)
	}})
	c.do("POST", "/api/chat", `{"model":"story:Q8_0","keep_alive":"5m","think":false,"options":{"num_predict":9.0,"temperature":0.5,"top_k":3,"top_p":0.7,
		"min_p":0.1,"seed":5,"stop":["END"],"repeat_penalty":1.5,"presence_penalty":1,"frequency_penalty":-1,"num_ctx":512,"num_gpu":99,"typical_p":1},
		"messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"a","arguments":{"x":1}}},{"function":{"name":"b","arguments":{}}}]},
		{"role":"tool","content":"two","tool_name":"b"},{"role":"tool","content":"one"}]}`)
	r := <-seen
	want := shared.Sampling{Temperature: 0.5, TopK: 3, TopP: 0.7, MinP: 0.1, Seed: 5, RepeatPenalty: 1.5, PresencePenalty: 1, FrequencyPenalty: -1}
	if got := r.Sampling; got.Temperature != want.Temperature || got.TopK != 3 || got.TopP != want.TopP || got.MinP != want.MinP || got.Seed != 5 ||
		got.RepeatPenalty != 1.5 || got.PresencePenalty != 1 || got.FrequencyPenalty != -1 || r.MaxTokens != 9 || !slices.Equal(r.Stop, []string{"END"}) {
		t.Errorf("%+v", r)
	}
	calls := r.Messages[0].ToolCalls
	if len(calls) != 2 || calls[0].Arguments != `{"x":1}` || r.Messages[1].ToolCallID != calls[1].ID || r.Messages[2].ToolCallID != calls[0].ID || calls[0].ID == calls[1].ID {
		t.Errorf("calls %+v, answered %+v", calls, r.Messages[1:])
	}
	for body, check := range map[string]func(shared.GenerateRequest) bool{
		`"prompt":"p","system":"s"`: func(r shared.GenerateRequest) bool { return len(r.Messages) == 2 && r.Messages[0].Content == "s" },
		`"prompt":"p","raw":true`:   func(r shared.GenerateRequest) bool { return r.Prompt == "p" && r.Messages == nil },
		`"prompt":"p"`: func(r shared.GenerateRequest) bool {
			return r.Sampling.TopP == 0.9 && r.Sampling.RepeatPenalty == 1.1 && r.Sampling.MinP == 0 && r.Sampling.Seed == 0 && r.MaxTokens == 0
		},
		`"prompt":"p","options":{"seed":0}`: func(r shared.GenerateRequest) bool { return r.Sampling.Seed != 0 },
		`"prompt":"p","options":{"seed":-1,"num_predict":-1,"repeat_last_n":0}`: func(r shared.GenerateRequest) bool {
			return r.Sampling.Seed == 0 && r.MaxTokens == 0 && r.Sampling.RepeatPenalty == 1
		},
		`"prompt":"p","format":"json"`:            func(r shared.GenerateRequest) bool { return r.Grammar != "" },
		`"prompt":"p","format":{"const":"xyz"}`:   func(r shared.GenerateRequest) bool { return strings.Contains(r.Grammar, "xyz") },
		`"prompt":"p","format":"","options":null`: func(r shared.GenerateRequest) bool { return r.Grammar == "" },
	} {
		c.do("POST", "/api/generate", `{"model":"story:Q8_0",`+body+`}`)
		if r := <-seen; !check(r) {
			t.Errorf("%s gives %+v", body, r)
		}
	}
}

// TestOllamaCallsAreWhole has calls come in pieces, and wants them whole, with the
// time that the client waited for the first one among the phases.
func TestOllamaCallsAreWhole(t *testing.T) {
	pieces := []shared.ToolCall{
		{ID: "1", Name: "a", Arguments: `{"x`}, {Arguments: `":1}`}, {Index: 1, ID: "2", Name: "b", Arguments: "{}"}, {Index: 2, ID: "3", Name: "c", Arguments: `{"cut`},
	}
	const held = time.Nanosecond
	f := &fake{generate: func(_ context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		phases := &shared.Phases{DecodeFirstToken: held}
		for _, p := range pieces {
			if err := emit(shared.Chunk{ToolCalls: []shared.ToolCall{p}, Phases: phases}); err != nil {
				return shared.Result{}, err
			}
			phases = nil
		}
		return shared.Result{FinishReason: shared.FinishTools}, nil
	}}
	c := start(t, Config{}, f)
	const ask = `{"model":"story:Q8_0","tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}],`
	r := c.do("POST", "/api/chat", ask+ollamaHi)
	var calls []ollamaCall
	for _, l := range lines(t, r) {
		calls = append(calls, l.Message.ToolCalls...)
	}
	if len(calls) != 2 || calls[0].Function.Name != "a" || string(calls[0].Function.Arguments) != `{"x":1}` || *calls[1].Function.Index != 1 {
		t.Errorf("%+v in %s", calls, r.body)
	}
	if h := r.header.Get("Server-Timing"); !strings.Contains(h, "decode_first_token;dur=") {
		t.Errorf("Server-Timing: %q", h)
	}
	whole := as[line](t, c.do("POST", "/api/chat", `{"stream":false,`+ask[1:]+ollamaHi))
	if len(whole.Message.ToolCalls) != 2 || whole.DoneReason != "stop" {
		t.Errorf("in one piece: %+v", whole)
	}
	var got *shared.Phases
	_, err := ollamaFrontend{Frontend: f}.Generate(t.Context(), shared.GenerateRequest{Requirement: parseModel("story:Q8_0")}, func(c shared.Chunk) error {
		if c.Phases != nil {
			got = c.Phases
		}
		return nil
	})
	if err != nil || got == nil || got.DecodeFirstToken <= held {
		t.Errorf("what was held back is in no phase: %+v, %v", got, err)
	}
}

func TestOllamaErrors(t *testing.T) {
	plain := slot("q8", "Q8_0")
	plain.File.Architecture = "llama"
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{plain, slot("f16", "F16")}, generate: func(_ context.Context, r shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
		if r.Prompt == "pending" {
			return shared.Result{}, &shared.Error{Kind: shared.KindPending, SlotID: "q8", Message: "the slot is being prepared"}
		}
		return shared.Result{}, errors.New("broken")
	}})
	const q8 = `{"model":"story:Q8_0",`
	for _, bad := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/api/chat", `{"model":"story",` + ollamaHi, 404, "story:Q8_0, story:F16"},
		{"POST", "/api/generate", `{"model":"none","prompt":"x"}`, 404, "no slot matches"},
		{"POST", "/api/chat", `{` + ollamaHi, 400, "model is missing"},
		{"POST", "/api/chat", q8 + `"options":{"num_ctx":8192},` + ollamaHi, 400, "num_ctx is 8192, and the context of slot q8 has 512 tokens"},
		{"POST", "/api/chat", q8 + `"options":{"temprature":1},` + ollamaHi, 400, "unknown parameter: options.temprature"},
		{"POST", "/api/chat", q8 + `"options":{"mirostat":2},` + ollamaHi, 400, "mirostat is not supported"},
		{"POST", "/api/chat", q8 + `"options":{"top_k":1.5},` + ollamaHi, 400, "options.top_k"},
		{"POST", "/api/chat", q8 + `"think":"high",` + ollamaHi, 400, "q8 does not support thinking"},
		{"POST", "/api/chat", q8 + `"think":"hard",` + ollamaHi, 400, "think is true"},
		{"POST", "/api/generate", q8 + `"think":1,"prompt":"x"}`, 400, "think is true"},
		{"POST", "/api/chat", q8 + `"messages":[{"role":"user","content":"","thinking":"hm"}]}`, 400, "do not reason"},
		{"POST", "/api/chat", q8 + `"keep_alive":"soon",` + ollamaHi, 400, "keep_alive is"},
		{"POST", "/api/chat", q8 + `"format":"xml",` + ollamaHi, 400, "format is"},
		{"POST", "/api/chat", q8 + `"format":{"uniqueItems":true},` + ollamaHi, 400, "uniqueItems"},
		{"POST", "/api/chat", q8 + `"messages":[{"role":"user","content":"","images":["aGk="]}]}`, 400, "images are not supported"},
		{"POST", "/api/chat", q8 + `"messages":[{"role":"robot","content":""}]}`, 400, "robot"},
		{"POST", "/api/generate", q8 + `"prompt":"x","context":[1]}`, 400, "context is not supported"},
		{"POST", "/api/generate", q8 + `"prompt":"x","raw":true,"system":"s"}`, 400, "raw and system"},
		{"POST", "/api/generate", q8 + `"prompt":"pending","raw":true}`, 503, "being prepared"},
		{"POST", "/api/generate", q8 + `"prompt":"x"}`, 500, "broken"},
		{"POST", "/api/embed", q8 + `"input":"x","dimensions":3}`, 400, "dimensions"},
		{"POST", "/api/show", `{}`, 400, "model is missing"},
		{"POST", "/api/show", `{"model":"none"}`, 404, "no slot matches"},
		{"GET", "/api/chat", "", 405, "takes POST"},
		{"POST", "/api/pull", `{"model":"x"}`, 501, "firstframe pull"},
		{"DELETE", "/api/delete", `{"model":"x"}`, 501, "delete is not available"},
		{"POST", "/api/blobs/sha256:00", "x", 501, "blobs is not available"},
		{"GET", "/api/none", "", 404, "no such endpoint"},
	} {
		r := c.do(bad.method, bad.path, bad.body)
		if e := as[ollamaError](t, r); r.status != bad.status || !strings.Contains(e.Error, bad.text) {
			t.Errorf("%s %s: %d %s; want %d %q", bad.path, bad.body, r.status, r.body, bad.status, bad.text)
		}
		if bad.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", bad.body)
		}
	}
	locked := start(t, Config{HTTPSpec: shared.HTTPSpec{APIKeys: []string{"k"}}}, &fake{})
	if r := locked.do("GET", "/api/tags", ""); r.status != 401 || as[ollamaError](t, r).Error == "" {
		t.Errorf("without a key: %d %s", r.status, r.body)
	}
	if r := locked.do("POST", "/api/generate", `{"model":"story:Q8_0","keep_alive":0}`, "Authorization", "Bearer k"); r.status != 403 {
		t.Errorf("unloading without an admin key: %d %s", r.status, r.body)
	}
	ruled := start(t, Config{HTTPSpec: shared.HTTPSpec{APIKeys: []string{"k"}, AdminKeys: []string{"a"}}}, &fake{})
	for key, status := range map[string]int{"k": 401, "a": 200} {
		if r := ruled.do("POST", "/api/generate", `{"model":"story:Q8_0","keep_alive":0}`, "Authorization", "Bearer "+key); r.status != status {
			t.Errorf("unloading with key %s: %d %s", key, r.status, r.body)
		}
	}
}

func TestOllamaStreamEndsInAnError(t *testing.T) {
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		_, _ = tell("Once")(ctx, r, emit)
		return shared.Result{}, &shared.Error{Kind: shared.KindWorkerLost, Message: "the worker ended"}
	}})
	got := lines(t, c.do("POST", "/api/chat", `{"model":"story:Q8_0",`+ollamaHi))
	if len(got) != 2 || got[0].Message.Content != "Once" || !strings.Contains(got[1].Error, "the worker ended") || got[1].Done {
		t.Errorf("%+v", got)
	}
}

func TestOllamaModels(t *testing.T) {
	q8, f16 := slot("q8", "Q8_0"), slot("f16", "F16")
	q8.File = shared.ModelFile{Architecture: "llama", Parameters: 7_600_000_000, Bytes: 99, TrainedTokens: 2048, Tools: true, Thinking: true, ModifiedUnixNS: 1e18}
	f16.Status = shared.SlotEmpty
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{q8, f16}})
	tags := as[ollamaModelList](t, c.do("GET", "/api/tags", ""))
	var names []string
	for _, m := range tags.Models {
		names = append(names, m.Name)
		if m.Size != 0 && m.Size != 99 || !m.ExpiresAt.IsZero() || m.Digest != strings.TrimPrefix(identity(m.Details.QuantizationLevel).ModelRevision, "sha256:") || m.Details.Format != "gguf" {
			t.Errorf("%+v", m)
		}
	}
	if want := []string{"gpt-4o-mini:latest", "story:F16", "story:Q8_0"}; !slices.Equal(names, want) {
		t.Errorf("tags are %v, want %v", names, want)
	}
	running := as[ollamaModelList](t, c.do("GET", "/api/ps", ""))
	if m := running.Models; len(m) != 1 || m[0].Name != "story:Q8_0" || m[0].ExpiresAt.IsZero() || *m[0].SizeVRAM != 20 || m[0].ContextLength != 512 || m[0].Size != 30 || m[0].Details.ParameterSize != "7.6B" {
		t.Errorf("running: %+v", m)
	}
	show := as[ollamaShowJSON](t, c.do("POST", "/api/show", `{"model":"story:q8_0"}`))
	if show.ModelInfo["llama.context_length"] != 512.0 || !slices.Equal(show.Capabilities, []string{"completion", "tools", "thinking"}) || show.Details.Family != "llama" || show.ModifiedAt.IsZero() {
		t.Errorf("%+v", show)
	}
	if v := as[ollamaVersionJSON](t, c.do("GET", "/api/version", "")); v.Version != ollamaVersionNumber {
		t.Errorf("%+v", v)
	}
	if r := c.do("HEAD", "/", ""); r.status != 200 {
		t.Errorf("HEAD /: %d", r.status)
	}
}

func TestOllamaLoads(t *testing.T) {
	q8, f16 := slot("q8", "Q8_0"), slot("f16", "F16")
	q8.Status, f16.Status, f16.OnMiss = shared.SlotEmpty, shared.SlotEmpty, shared.OnMissFail
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{q8, f16}})
	for body, want := range map[string]string{
		`{"model":"story:Q8_0"}`:                              "load",
		`{"model":"story:Q8_0","prompt":"","keep_alive":"0"}`: "unload",
	} {
		if l := as[line](t, c.do("POST", "/api/generate", body)); !l.Done || l.DoneReason != want || l.Response == nil {
			t.Errorf("%s: %+v", body, l)
		}
	}
	if r := c.do("POST", "/api/chat", `{"model":"story:F16","messages":[]}`); r.status != 503 || !strings.Contains(r.body, "not resident") {
		t.Errorf("a slot that requests do not prepare: %d %s", r.status, r.body)
	}
}

func TestOllamaEmbeds(t *testing.T) {
	c := start(t, Config{}, &fake{})
	got := as[ollamaEmbedJSON](t, c.do("POST", "/api/embed", `{"model":"story:Q8_0","input":["abc","x"],"truncate":true}`))
	if len(got.Embeddings) != 2 || got.Embeddings[0][0] != 3 || got.PromptEvalCount != 4 || got.Model != "story:Q8_0" {
		t.Errorf("%+v", got)
	}
	if old := as[ollamaEmbeddingJSON](t, c.do("POST", "/api/embeddings", `{"model":"story:Q8_0","prompt":"abc"}`)); !slices.Equal(old.Embedding, []float32{3, -0.5}) {
		t.Errorf("%+v", old)
	}
}

func FuzzDecodeOllama(f *testing.F) {
	for _, seed := range []string{`{"model":"m",` + ollamaHi, `{"model":"m:latest","prompt":"x","options":{"num_ctx":1e3,"stop":"a","seed":0}}`,
		`{"model":"m","input":["x"],"keep_alive":"-1ns"}`, `{"model":"m","format":{"type":"object"},"tools":[{"type":"function","function":{"name":"f"}}],` + ollamaHi,
		`{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"a","arguments":null}}]},{"role":"tool","content":"r"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, body := range []ollamaBody{&ollamaChatRequest{}, &ollamaGenerateRequest{}} {
			if err := decodeJSON(data, body); err != nil {
				fuzzDecode(t, err)
				continue
			}
			ask, err := body.toAsk()
			fuzzDecode(t, err)
			if ask.MaxTokens < 0 || ask.context < 0 || err == nil && ask.Requirement.Model == "" && !strings.Contains(ask.model, "@") && ask.model != ":latest" {
				t.Fatalf("%+v", ask)
			}
			if err == nil && ask.Prompt != "" && ask.Messages != nil {
				t.Fatalf("two prompts: %+v", ask)
			}
		}
		var embed ollamaEmbedRequest
		err := decodeJSON(data, &embed)
		if err == nil {
			_, err = embed.toShared()
		}
		fuzzDecode(t, err)
		var show ollamaShowRequest
		if err = decodeJSON(data, &show); err == nil {
			_, err = show.requirement()
		}
		fuzzDecode(t, err)
	})
}
