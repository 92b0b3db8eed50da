package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/firstframe/firstframe/internal/schematest"
)

// claude is an unchanged client of Anthropic's on a proxy beside a server.
type claude struct {
	anthropic.Client
	ctx context.Context
}

// TestAnthropicClient has an unchanged client of Anthropic's use a real server.
func TestAnthropicClient(t *testing.T) {
	s := serve(t, thinkSlot(t)+toolSlots(t))
	url := s.proxy("--api-key", "secret")
	client := func(key option.RequestOption) *claude {
		return &claude{anthropic.NewClient(option.WithBaseURL(url), key,
			option.WithMaxRetries(0), option.WithRequestTimeout(patience)), t.Context()}
	}
	c := client(option.WithAPIKey("secret"))
	t.Run("chat", c.chat)
	t.Run("tools", c.tools)
	t.Run("structured output", c.schema)
	t.Run("thinking", c.thinking)
	t.Run("errors", c.errors)
	t.Run("keys", func(t *testing.T) {
		if _, err := client(option.WithAuthToken("secret")).Messages.New(t.Context(), storyMessage("plain")); err != nil {
			t.Errorf("as a bearer token: %v", err)
		}
		_, err := client(option.WithAPIKey("wrong")).Messages.New(t.Context(), storyMessage("plain"))
		wantAnthropic(t, err, 401, "authentication_error", "key")
	})
}

func storyMessage(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 24, Temperature: anthropic.Float(0),
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Tell me a story about a fox."))},
	}
}

func wantAnthropic(t *testing.T, err error, status int, kind anthropic.ErrorType, says string) {
	t.Helper()
	var apiErr *anthropic.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != status || apiErr.Type() != kind || apiErr.RequestID == "" || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %d %s with %q", err, status, kind, says)
	}
}

// stream reads an answer that is streamed.
func (c *claude) stream(t *testing.T, ask anthropic.MessageNewParams) (all anthropic.Message, kinds []string) {
	t.Helper()
	stream := c.Messages.NewStreaming(c.ctx, ask)
	for stream.Next() {
		e := stream.Current()
		kinds = append(kinds, e.Type)
		if err := all.Accumulate(e); err != nil {
			t.Errorf("%s: %v", e.RawJSON(), err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if kinds[0] != "message_start" || kinds[len(kinds)-1] != "message_stop" {
		t.Errorf("events %v", kinds)
	}
	return all, kinds
}

func (c *claude) count(t *testing.T, ask anthropic.MessageNewParams) int64 {
	t.Helper()
	params := anthropic.MessageCountTokensParams{
		Model: ask.Model, Messages: ask.Messages, System: anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: ask.System},
	}
	for _, tool := range ask.Tools {
		params.Tools = append(params.Tools, anthropic.MessageCountTokensToolUnionParam{OfTool: tool.OfTool})
	}
	n, err := c.Messages.CountTokens(c.ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	return n.InputTokens
}

func prompt(m anthropic.Message) int64 { return m.Usage.InputTokens + m.Usage.CacheReadInputTokens }

func (c *claude) chat(t *testing.T) {
	ask := storyMessage("plain")
	whole, err := c.Messages.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Content) != 1 || !strings.Contains(whole.Content[0].AsText().Text, "fox") || whole.StopReason != anthropic.StopReasonMaxTokens ||
		whole.Usage.OutputTokens != 24 || whole.Model != "plain:Q8_0" || whole.JSON.ExtraFields["timings"].Raw() == "" {
		t.Errorf("%s", whole.RawJSON())
	}
	if n := c.count(t, ask); n != prompt(*whole) {
		t.Errorf("%d tokens were counted, the prompt had %d", n, prompt(*whole))
	}
	streamed, kinds := c.stream(t, ask)
	if !strings.Contains(streamed.Content[0].Text, "fox") || streamed.StopReason != whole.StopReason || prompt(streamed) != prompt(*whole) || streamed.Usage.CacheReadInputTokens == 0 ||
		!strings.Contains(strings.Join(kinds, " "), "content_block_start content_block_delta content_block_delta") {
		t.Errorf("%s by %v", streamed.RawJSON(), kinds)
	}
	// The next turn, with a system prompt, ends at a stop sequence.
	word := strings.Fields(whole.Content[0].Text)[1]
	ask.StopSequences = []string{word}
	if stopped, err := c.Messages.New(c.ctx, ask); err != nil || stopped.StopReason != anthropic.StopReasonStopSequence || stopped.StopSequence != word {
		t.Errorf("stopped at %q: %+v, %v", word, stopped, err)
	}
	ask.StopSequences = nil
	ask.System = []anthropic.TextBlockParam{{Text: "Be brief.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}
	ask.Messages = append(ask.Messages, whole.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("And then?")))
	next, err := c.Messages.New(c.ctx, ask)
	if err != nil || prompt(*next) != c.count(t, ask) || prompt(*next) <= prompt(*whole)+24 {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func (c *claude) tools(t *testing.T) {
	const schema = `{"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"],"additionalProperties":false}`
	ask := storyMessage("tools")
	ask.MaxTokens = 200
	plain := c.count(t, ask)
	ask.Tools = []anthropic.ToolUnionParam{
		{OfTool: &anthropic.ToolParam{Name: "now", InputSchema: anthropic.ToolInputSchemaParam{}}},
		{OfTool: &anthropic.ToolParam{Name: "tell", Description: anthropic.String("Tells."), InputSchema: anthropic.ToolInputSchemaParam{
			Properties: parameters(t, schema)["properties"], Required: []string{"city"}, ExtraFields: map[string]any{"additionalProperties": false},
		}}},
	}
	ask.ToolChoice = anthropic.ToolChoiceUnionParam{OfTool: &anthropic.ToolChoiceToolParam{Name: "tell", DisableParallelToolUse: anthropic.Bool(true)}}
	whole, err := c.Messages.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if whole.StopReason != anthropic.StopReasonToolUse || len(whole.Content) != 1 {
		t.Fatalf("%s", whole.RawJSON())
	}
	use := whole.Content[0].AsToolUse()
	if err := schematest.Validate(schema, string(use.Input)); err != nil || use.Name != "tell" || use.ID == "" {
		t.Errorf("%s: %v", whole.RawJSON(), err)
	}
	if n := c.count(t, ask); n != prompt(*whole) || n <= plain {
		t.Errorf("%d tokens were counted, %d without tools; the prompt had %d", n, plain, prompt(*whole))
	}
	streamed, _ := c.stream(t, ask)
	got := streamed.Content[0].AsToolUse()
	if err := schematest.Validate(schema, string(got.Input)); err != nil || got.Name != "tell" || streamed.StopReason != anthropic.StopReasonToolUse {
		t.Errorf("streamed %+v: %v", streamed, err)
	}
	ask.Messages = append(ask.Messages, whole.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(use.ID, "sunny", false)))
	ask.ToolChoice = anthropic.ToolChoiceUnionParam{OfAuto: &anthropic.ToolChoiceAutoParam{}}
	if next, err := c.Messages.New(c.ctx, ask); err != nil || len(next.Content) == 0 {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func (c *claude) schema(t *testing.T) {
	const schema = `{"type":"object","properties":{"age":{"type":"integer","minimum":1,"maximum":9}},"required":["age"],"additionalProperties":false}`
	ask := storyMessage("plain")
	ask.MaxTokens = 100
	ask.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: parameters(t, schema)}}
	whole, err := c.Messages.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if err := schematest.Validate(schema, whole.Content[0].Text); err != nil {
		t.Errorf("%s: %v", whole.RawJSON(), err)
	}
}

func (c *claude) thinking(t *testing.T) {
	ask := storyMessage("thinker")
	ask.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
	streamed, _ := c.stream(t, ask)
	if len(streamed.Content) != 1 || streamed.Content[0].Type != "thinking" || len(streamed.Content[0].Thinking) < 20 {
		t.Fatalf("%s", streamed.RawJSON())
	}
	whole, err := c.Messages.New(c.ctx, ask)
	if err != nil || len(whole.Content) != 1 || len(whole.Content[0].AsThinking().Thinking) < 20 {
		t.Errorf("%+v, %v", whole, err)
	}
	ask.Messages = append(ask.Messages, streamed.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("So?")))
	if next, err := c.Messages.New(c.ctx, ask); err != nil || prompt(*next) < prompt(streamed)+streamed.Usage.OutputTokens {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func (c *claude) errors(t *testing.T) {
	_, err := c.Messages.New(c.ctx, storyMessage("nobody"))
	wantAnthropic(t, err, 404, "not_found_error", "nobody")
	ask := storyMessage("plain")
	ask.Messages[0].Content = append(ask.Messages[0].Content, anthropic.NewImageBlockBase64("image/png", "AA=="))
	_, err = c.Messages.New(c.ctx, ask)
	wantAnthropic(t, err, 400, "invalid_request_error", "image")
	stream := c.Messages.NewStreaming(c.ctx, ask)
	if stream.Next() {
		t.Errorf("%s", stream.Current().RawJSON())
	}
	wantAnthropic(t, stream.Err(), 400, "invalid_request_error", "image")
	ask = storyMessage("plain")
	ask.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "now"}}}
	_, err = c.Messages.New(c.ctx, ask)
	wantAnthropic(t, err, 400, "invalid_request_error", "knows no tools")
	_, err = c.Messages.CountTokens(c.ctx, anthropic.MessageCountTokensParams{Model: ask.Model, Messages: ask.Messages,
		Tools: []anthropic.MessageCountTokensToolUnionParam{{OfTool: ask.Tools[0].OfTool}}})
	wantAnthropic(t, err, 400, "invalid_request_error", "knows no tools")
	ask = storyMessage("plain")
	ask.Messages[0] = anthropic.NewUserMessage(anthropic.NewTextBlock(strings.Repeat("A fox. ", 400)))
	_, err = c.Messages.New(c.ctx, ask)
	wantAnthropic(t, err, 400, "invalid_request_error", "context")
	_, err = c.Messages.New(c.ctx, storyMessage("plain"), option.WithJSONSet("tempersture", 1))
	wantAnthropic(t, err, 400, "invalid_request_error", "tempersture")
}
