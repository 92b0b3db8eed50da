package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/firstframe/firstframe/internal/schematest"
)

func storyResponse(model string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model, MaxOutputTokens: openai.Int(24), Temperature: openai.Float(0),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Tell me a story about a fox.")},
	}
}

// TestOpenAIResponses has an unchanged client use /v1/responses.
func TestOpenAIResponses(t *testing.T) {
	c := clientOf(t, thinkSlot(t)+fmt.Sprintf(`
model "tools" { path = %q }
slot "tools" {
  model   = model.tools
  threads = 1
  context { tokens = 512 }
}
`, toolModel(t)))
	t.Run("text", c.responseText)
	t.Run("structured output", c.responseSchema)
	t.Run("tools", c.responseTools)
	t.Run("reasoning", c.responseReasoning)
	t.Run("errors", c.responseErrors)
}

// stream reads a response that is streamed, and its last state.
func (c *openAI) stream(t *testing.T, ask responses.ResponseNewParams) (kinds []string, last responses.Response) {
	t.Helper()
	stream := c.Responses.NewStreaming(c.ctx, ask)
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != int64(len(kinds)) {
			t.Errorf("event %d: %s", len(kinds), e.RawJSON())
		}
		kinds = append(kinds, e.Type)
		switch done := e.AsAny().(type) {
		case responses.ResponseCompletedEvent:
			last = done.Response
		case responses.ResponseIncompleteEvent:
			last = done.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return kinds, last
}

func (c *openAI) responseText(t *testing.T) {
	ask := storyResponse("tools")
	whole, err := c.Responses.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(whole.OutputText(), "fox") || whole.Status != "incomplete" || whole.IncompleteDetails.Reason != "max_output_tokens" ||
		whole.Usage.OutputTokens != 24 || whole.Usage.InputTokens == 0 || whole.JSON.ExtraFields["timings"].Raw() == "" {
		t.Errorf("%s", whole.RawJSON())
	}
	kinds, last := c.stream(t, ask)
	if !strings.Contains(last.OutputText(), "fox") || last.Usage.OutputTokens != 24 || kinds[0] != "response.created" ||
		kinds[len(kinds)-1] != "response.incomplete" || !strings.Contains(strings.Join(kinds, " "), "response.output_text.delta response.output_text.delta") {
		t.Errorf("%q by %v", last.OutputText(), kinds)
	}
	// The answer and more go back as items.
	ask.Instructions = openai.String("Be brief.")
	ask.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("Tell me a story about a fox.", responses.EasyInputMessageRoleUser),
		{OfOutputMessage: messageParam(whole.Output[0].AsMessage())},
		responses.ResponseInputItemParamOfMessage("And then?", responses.EasyInputMessageRoleUser),
	}}
	next, err := c.Responses.New(c.ctx, ask)
	if err != nil || next.Usage.InputTokens <= whole.Usage.InputTokens+24 || next.Instructions.OfString != "Be brief." {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func messageParam(m responses.ResponseOutputMessage) *responses.ResponseOutputMessageParam {
	p := m.ToParam()
	return &p
}

func (c *openAI) responseSchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":1,"maximum":9}},"required":["name","age"],"additionalProperties":false}`
	ask := storyResponse("tools")
	ask.MaxOutputTokens = openai.Int(200)
	ask.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
		OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Strict: openai.Bool(true), Schema: parameters(t, schema)},
	}}
	whole, err := c.Responses.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if err := schematest.Validate(schema, whole.OutputText()); err != nil || whole.Status != "completed" {
		t.Errorf("%s: %v", whole.RawJSON(), err)
	}
}

func (c *openAI) responseTools(t *testing.T) {
	const schema = `{"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"],"additionalProperties":false}`
	ask := storyResponse("tools")
	ask.MaxOutputTokens = openai.Int(200)
	ask.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("tell", parameters(t, schema), true)}
	ask.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "tell"}}
	ask.ParallelToolCalls = openai.Bool(false)
	whole, err := c.Responses.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Status != "completed" || len(whole.Output) != 1 || whole.Output[0].Type != "function_call" {
		t.Fatalf("%s", whole.RawJSON())
	}
	call := whole.Output[0].AsFunctionCall()
	if err := schematest.Validate(schema, call.Arguments); err != nil || call.Name != "tell" || call.CallID == "" {
		t.Errorf("%s: %v", whole.RawJSON(), err)
	}
	kinds, last := c.stream(t, ask)
	if len(last.Output) != 1 || schematest.Validate(schema, last.Output[0].AsFunctionCall().Arguments) != nil ||
		!strings.Contains(strings.Join(kinds, " "), "response.function_call_arguments.done response.output_item.done response.completed") {
		t.Errorf("streamed %s by %v", last.RawJSON(), kinds)
	}
	again := call.ToParam()
	ask.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("Tell me.", responses.EasyInputMessageRoleUser),
		{OfFunctionCall: &again},
		{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: openai.String(call.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("sunny")},
		}},
	}}
	ask.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsAuto)}
	if next, err := c.Responses.New(c.ctx, ask); err != nil || len(next.Output) == 0 {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func (c *openAI) responseReasoning(t *testing.T) {
	kinds, last := c.stream(t, storyResponse("thinker"))
	if len(last.Output) != 1 || last.Output[0].Type != "reasoning" || last.Usage.OutputTokensDetails.ReasoningTokens != last.Usage.OutputTokens ||
		!strings.Contains(strings.Join(kinds, " "), "response.reasoning_text.delta response.reasoning_text.delta") {
		t.Fatalf("%s by %v", last.RawJSON(), kinds)
	}
	thought := last.Output[0].AsReasoning()
	if len(thought.Content) != 1 || len(thought.Content[0].Text) < 20 {
		t.Errorf("%s", thought.RawJSON())
	}
	ask := storyResponse("thinker")
	again := thought.ToParam()
	ask.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage("Tell me a story about a fox.", responses.EasyInputMessageRoleUser),
		{OfReasoning: &again}, responses.ResponseInputItemParamOfMessage("No.", responses.EasyInputMessageRoleAssistant),
		responses.ResponseInputItemParamOfMessage("Why?", responses.EasyInputMessageRoleUser),
	}}
	if next, err := c.Responses.New(c.ctx, ask); err != nil || next.Usage.InputTokens <= last.Usage.TotalTokens {
		t.Errorf("the next turn: %+v, %v", next, err)
	}
}

func (c *openAI) responseErrors(t *testing.T) {
	for param, bad := range map[string]func(*responses.ResponseNewParams){
		"previous_response_id": func(p *responses.ResponseNewParams) { p.PreviousResponseID = openai.String("resp_1") },
		"store":                func(p *responses.ResponseNewParams) { p.Store = openai.Bool(true) },
		"tools": func(p *responses.ResponseNewParams) {
			p.Tools = []responses.ToolUnionParam{{OfWebSearch: &responses.WebSearchToolParam{Type: "web_search"}}}
		},
		"text.format.schema": func(p *responses.ResponseNewParams) {
			p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
				Name: "x", Schema: map[string]any{"type": "array", "uniqueItems": true},
			}
		},
		"reasoning.effort": func(p *responses.ResponseNewParams) { p.Reasoning = shared.ReasoningParam{Effort: "high"} },
	} {
		ask := storyResponse("tools")
		bad(&ask)
		_, err := c.Responses.New(c.ctx, ask)
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Param != param || apiErr.Message == "" {
			t.Errorf("%s: %v", param, err)
		}
		stream := c.Responses.NewStreaming(c.ctx, ask)
		if stream.Next() || stream.Err() == nil {
			t.Errorf("%s streams: %v", param, stream.Err())
		}
	}
	_, err := c.Responses.New(c.ctx, storyResponse("nobody"))
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != 404 || apiErr.Code != "model_not_found" || !json.Valid([]byte(apiErr.RawJSON())) {
		t.Errorf("no such model: %v", err)
	}
}
