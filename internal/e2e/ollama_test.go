package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/firstframe/firstframe/internal/schematest"
)

// ollamaClient is an unchanged client of Ollama's beside a real server.
type ollamaClient struct {
	*api.Client
	ctx context.Context
	url *url.URL
	web *http.Client
}

// TestOllamaClient is what Ollama's own Go client does.
func TestOllamaClient(t *testing.T) {
	address, err := url.Parse(serve(t, fmt.Sprintf(`
model "tools" { path = %q }
model "plain" {
  name = "storyteller"
  path = %q
}
slot "tools" {
  model   = model.tools
  threads = 1
  context { tokens = 512 }
}
slot "plain" {
  model   = model.plain
  threads = 1
  context { tokens = 512 }
}
alias "llama3.2:1b" { slot = slot.plain }
`, toolModel(t), model(t, "storyteller-q8_0.gguf"))+thinkSlot(t)).proxy())
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	t.Cleanup(web.CloseIdleConnections)
	c := ollamaClient{api.NewClient(address, web), t.Context(), address, web}
	t.Run("models", c.models)
	t.Run("chat", c.chat)
	t.Run("generate", c.generate)
	t.Run("format", c.format)
	t.Run("tools", c.tools)
	t.Run("think", c.think)
	t.Run("embed", c.embed)
	t.Run("errors", c.errors)
	t.Run("load", c.load)
}

func (c ollamaClient) models(t *testing.T) {
	if err := c.Heartbeat(c.ctx); err != nil {
		t.Error(err)
	}
	if v, err := c.Version(c.ctx); err != nil || v == "" {
		t.Errorf("version %q, %v", v, err)
	}
	list, err := c.List(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]api.ListModelResponse{}
	for _, m := range list.Models {
		named[m.Name] = m
	}
	plain, ok := named["storyteller:latest"]
	if !ok || named["llama3.2:1b"].Digest != sha256Q8 || plain.Digest != sha256Q8 || plain.Details.QuantizationLevel != "Q8_0" || plain.Size == 0 || plain.ModifiedAt.IsZero() {
		t.Errorf("%+v", named)
	}
	running, err := c.ListRunning(c.ctx)
	if err != nil || len(running.Models) != 3 || running.Models[0].ContextLength != 512 || running.Models[0].Size == 0 {
		t.Errorf("running: %+v, %v", running, err)
	}
	for name, tools := range map[string]bool{"tools": true, "storyteller:latest": false} {
		show, err := c.Show(c.ctx, &api.ShowRequest{Model: name})
		if err != nil {
			t.Fatal(err)
		}
		arch := show.ModelInfo["general.architecture"]
		if show.ModelInfo[fmt.Sprint(arch, ".context_length")] != 512.0 || show.Details.ParameterSize == "" || tools != (len(show.Capabilities) == 2) {
			t.Errorf("%s: %+v", name, show)
		}
	}
}

// ask runs a chat and puts its stream together.
func (c ollamaClient) ask(req *api.ChatRequest) (last api.ChatResponse, text string, calls []api.ToolCall, pieces int, err error) {
	err = c.Chat(c.ctx, req, func(r api.ChatResponse) error {
		pieces++
		text += r.Message.Content
		calls = append(calls, r.Message.ToolCalls...)
		last = r
		return nil
	})
	return last, text, calls, pieces, err
}

func ollamaStory(model string) *api.ChatRequest {
	return &api.ChatRequest{
		Model: model, Options: map[string]any{"temperature": 0, "num_predict": 24, "num_ctx": 512},
		Messages: []api.Message{{Role: "user", Content: "Tell me a story about a fox."}},
	}
}

func (c ollamaClient) chat(t *testing.T) {
	last, text, _, pieces, err := c.ask(ollamaStory("storyteller"))
	if err != nil {
		t.Fatal(err)
	}
	m := last.Metrics
	if !last.Done || last.DoneReason != "length" || m.EvalCount != 24 || m.PromptEvalCount == 0 || pieces < 3 || last.Model != "storyteller" ||
		m.LoadDuration <= 0 || m.EvalDuration <= 0 || m.TotalDuration < m.EvalDuration+m.LoadDuration {
		t.Errorf("%d pieces, %+v", pieces, last)
	}
	no := false
	req := ollamaStory("llama3.2:1b")
	req.Stream, req.Logprobs = &no, true
	whole, same, _, pieces, err := c.ask(req)
	if err != nil || same != text || pieces != 1 || len(whole.Logprobs) != whole.EvalCount {
		t.Errorf("in one piece: %q instead of %q, %d pieces, %d logprobs, %v", same, text, pieces, len(whole.Logprobs), err)
	}
}

func (c ollamaClient) generate(t *testing.T) {
	var text string
	var last api.GenerateResponse
	err := c.Generate(c.ctx, &api.GenerateRequest{
		Model: "storyteller:q8_0", Prompt: "Once upon", Raw: true, Options: map[string]any{"temperature": 0, "num_predict": 8, "stop": []string{"never said"}},
	}, func(r api.GenerateResponse) error {
		text += r.Response
		last = r
		return nil
	})
	if err != nil || text == "" || !last.Done || last.EvalCount == 0 {
		t.Errorf("%q %+v %v", text, last, err)
	}
}

func (c ollamaClient) format(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for i := range 10 {
		schema := schematest.Random(rnd)
		req := ollamaStory("storyteller")
		req.Format, req.Options["num_predict"], req.Options["seed"] = json.RawMessage(schema), 450, i
		last, text, _, _, err := c.ask(req)
		if err != nil {
			t.Fatalf("%v for %s", err, schema)
		}
		if err := schematest.Validate(schema, text); err != nil || last.DoneReason != "stop" {
			t.Fatalf("%s\nanswered by %s (%s)\n%v", schema, text, last.DoneReason, err)
		}
	}
	req := ollamaStory("storyteller")
	req.Format = json.RawMessage(`{"type":"array","uniqueItems":true}`)
	_, _, _, _, err := c.ask(req)
	wantStatus(t, err, http.StatusBadRequest, "uniqueItems")
}

// required asks for a call, which Ollama's protocol has no word for and the tiny
// model would hardly ever make by itself.
type required struct{ http.RoundTripper }

func (r required) RoundTrip(req *http.Request) (*http.Response, error) {
	var body map[string]any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	body["tool_choice"] = "required"
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return r.RoundTripper.RoundTrip(req)
}

func (c ollamaClient) tools(t *testing.T) {
	properties := api.NewToolPropertiesMap()
	properties.Set("count", api.ToolProperty{Type: api.PropertyType{"integer"}})
	req := ollamaStory("tools")
	req.Options["num_predict"] = 400
	req.Tools = api.Tools{
		{Type: "function", Function: api.ToolFunction{Name: "tell", Parameters: api.ToolFunctionParameters{Type: "object", Properties: properties, Required: []string{"count"}}}},
		{Type: "function", Function: api.ToolFunction{Name: "now"}},
	}
	asked := ollamaClient{api.NewClient(c.url, &http.Client{Transport: required{c.web.Transport}, Timeout: patience}), c.ctx, c.url, c.web}
	last, text, calls, pieces, err := asked.ask(req)
	if err != nil || len(calls) == 0 || text != "" || !last.Done || pieces != len(calls)+1 {
		t.Fatalf("%q and %+v in %d pieces, %+v, %v", text, calls, pieces, last, err)
	}
	for i, call := range calls {
		count, is := call.Function.Arguments.ToMap()["count"].(float64)
		if call.ID == "" || call.Function.Index != i || call.Function.Name == "tell" && (!is || count != math.Trunc(count)) {
			t.Errorf("call %d: %+v", i, call)
		}
	}
	// The calls and a result go back, and the model may answer as it likes.
	req.Messages = append(req.Messages, api.Message{Role: "assistant", ToolCalls: calls}, api.Message{Role: "tool", ToolName: calls[0].Function.Name, Content: "done"})
	if last, _, _, _, err := c.ask(req); err != nil || !last.Done {
		t.Errorf("the next turn: %+v, %v", last, err)
	}
}

// think has a model of which the template says that it thinks, and one that does not.
func (c ollamaClient) think(t *testing.T) {
	show, err := c.Show(c.ctx, &api.ShowRequest{Model: "thinker"})
	if err != nil || !slices.Contains(show.Capabilities, "thinking") {
		t.Errorf("%+v, %v", show, err)
	}
	req := ollamaStory("thinker")
	req.Think = &api.ThinkValue{Value: "high"}
	req.Messages = append(req.Messages, api.Message{Role: "assistant", Content: "A fox.", Thinking: "A fox?"}, api.Message{Role: "user", Content: "Go on."})
	var thought string
	pieces := 0
	err = c.Chat(c.ctx, req, func(r api.ChatResponse) error {
		if r.Message.Content != "" {
			t.Errorf("said %q", r.Message.Content)
		}
		if r.Message.Thinking != "" {
			thought += r.Message.Thinking
			pieces++
		}
		return nil
	})
	if err != nil || len(thought) < 20 || pieces < 2 {
		t.Errorf("thought %q in %d pieces, %v", thought, pieces, err)
	}
	req.Model = "storyteller"
	_, _, _, _, err = c.ask(req)
	wantStatus(t, err, http.StatusBadRequest, "does not support thinking")
}

func (c ollamaClient) embed(t *testing.T) {
	res, err := c.Embed(c.ctx, &api.EmbedRequest{Model: "storyteller", Input: []string{"The fox is red.", "What is a slot?"}})
	if err != nil || len(res.Embeddings) != 2 || res.PromptEvalCount == 0 || res.TotalDuration <= 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	var square float64
	for _, x := range res.Embeddings[1] {
		square += float64(x) * float64(x)
	}
	if math.Abs(square-1) > 1e-4 {
		t.Errorf("a vector has length %v", math.Sqrt(square))
	}
	if old, err := c.Embeddings(c.ctx, &api.EmbeddingRequest{Model: "storyteller", Prompt: "The fox is red."}); err != nil || len(old.Embedding) != len(res.Embeddings[0]) {
		t.Errorf("%+v, %v", old, err)
	}
}

// wantStatus wants an error that the client understood.
func wantStatus(t *testing.T, err error, status int, text string) {
	t.Helper()
	var own api.StatusError
	if !errors.As(err, &own) || own.StatusCode != status || !strings.Contains(own.ErrorMessage, text) {
		t.Errorf("%#v; want %d with %q", err, status, text)
	}
}

func (c ollamaClient) errors(t *testing.T) {
	_, _, _, _, err := c.ask(ollamaStory("nobody"))
	wantStatus(t, err, http.StatusNotFound, "nobody")
	req := ollamaStory("storyteller")
	req.Options["num_ctx"] = 8192
	_, _, _, _, err = c.ask(req)
	wantStatus(t, err, http.StatusBadRequest, "512")
	req = ollamaStory("storyteller")
	req.Tools = api.Tools{{Type: "function", Function: api.ToolFunction{Name: "now"}}}
	_, _, _, _, err = c.ask(req)
	wantStatus(t, err, http.StatusBadRequest, "tools")
	req = ollamaStory("storyteller")
	req.Messages[0].Content = strings.Repeat("fox ", 2000)
	_, _, _, _, err = c.ask(req)
	wantStatus(t, err, http.StatusBadRequest, "context")
	err = c.Pull(c.ctx, &api.PullRequest{Model: "llama3.2"}, func(api.ProgressResponse) error { return nil })
	wantStatus(t, err, http.StatusNotImplemented, "firstframe pull")
	wantStatus(t, c.Delete(c.ctx, &api.DeleteRequest{Model: "storyteller"}), http.StatusNotImplemented, "delete")
}

// load frees a model and brings it back, as `ollama stop` and an empty prompt do.
func (c ollamaClient) load(t *testing.T) {
	for _, step := range []struct {
		keep   *api.Duration
		reason string
		loaded int
	}{{&api.Duration{}, "unload", 2}, {nil, "load", 3}} {
		var last api.GenerateResponse
		err := c.Generate(c.ctx, &api.GenerateRequest{Model: "storyteller", KeepAlive: step.keep}, func(r api.GenerateResponse) error {
			last = r
			return nil
		})
		running, listErr := c.ListRunning(c.ctx)
		if err != nil || listErr != nil || last.DoneReason != step.reason || len(running.Models) != step.loaded {
			t.Errorf("%+v, running %+v, %v, %v", last, running, err, listErr)
		}
	}
}
