package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/firstframe/firstframe/internal/schematest"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// toolTemplate is in the manner of models that mark calls with tags.
const toolTemplate = `{{ bos_token }}{% if tools %}{{ '<|system|>' }}{% for t in tools %}{{ t.function.name + ' ' }}{% endfor %}` +
	`{{ 'answer <tool_call>{"name": …, "arguments": …}</tool_call><|end|>' }}{% endif %}{% for m in messages %}` +
	`{{ '<|' + m.role + '|>' + m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{{ '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}`

// toolModel is the tiny model with a chat template that knows tools.
func toolModel(t *testing.T) string { return templated(t, toolTemplate) }

// templated is the tiny model with another chat template.
func templated(t *testing.T, template string) string {
	t.Helper()
	file, err := os.ReadFile(model(t, "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ggufwrite.FromBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	f.Set(ggufwrite.Str("tokenizer.chat_template", template))
	if file, err = f.Encode(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "templated.gguf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// toolSlots declares a slot whose model can call tools and one whose model cannot.
func toolSlots(t *testing.T) string {
	return fmt.Sprintf(`
model "tools" { path = %q }
model "plain" { path = %q }
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
`, toolModel(t), model(t, "storyteller-q8_0.gguf"))
}

// TestOpenAITools has an unchanged client offer tools to a real server.
func TestOpenAITools(t *testing.T) {
	c := clientOf(t, toolSlots(t))
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 200 / share {
		schema := schematest.RandomObject(rnd)
		ask := story("tools")
		ask.MaxTokens, ask.Temperature, ask.Seed = openai.Int(400), openai.Float(1), openai.Int(int64(i+1))
		ask.ParallelToolCalls = openai.Bool(false)
		ask.Tools = []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "now"}),
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "tell", Parameters: parameters(t, schema)}),
		}
		ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfFunctionToolChoice: &openai.ChatCompletionNamedToolChoiceParam{
			Function: openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "tell"},
		}}
		whole, err := c.Chat.Completions.New(c.ctx, ask)
		if err != nil {
			t.Fatalf("%v for %s", err, schema)
		}
		choice := whole.Choices[0]
		if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) != 1 || choice.Message.ToolCalls[0].Function.Name != "tell" || choice.Message.ToolCalls[0].ID == "" {
			t.Fatalf("%s", whole.RawJSON())
		}
		arguments := choice.Message.ToolCalls[0].Function.Arguments
		if err := schematest.Validate(schema, arguments); err != nil {
			t.Fatalf("%s\ncalled with %s\n%v", schema, arguments, err)
		}
		if i > 0 {
			continue
		}
		stream := c.Chat.Completions.NewStreaming(c.ctx, ask)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		streamed := all.Choices[0].Message.ToolCalls
		if len(streamed) != 1 || streamed[0].Function.Name != "tell" || streamed[0].Function.Arguments != arguments || all.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("streamed %s with %s, in one piece %s", streamed[0].RawJSON(), streamed[0].Function.Arguments, arguments)
		}
		// The call and its result go back, and the model may answer as it likes.
		ask.Messages = append(ask.Messages, choice.Message.ToParam(), openai.ToolMessage("done", choice.Message.ToolCalls[0].ID))
		ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("auto")}
		if next, err := c.Chat.Completions.New(c.ctx, ask); err != nil || next.Choices[0].Message.Content == "" {
			t.Errorf("the next turn: %+v, %v", next, err)
		}
	}

	ask := story("plain")
	ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "now"})}
	var apiErr *openai.Error
	if _, err := c.Chat.Completions.New(c.ctx, ask); !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Param != "tools" {
		t.Errorf("a model without tools: %v", err)
	}
	ask.Model = "tools"
	ask.Tools[0].OfFunction.Function.Parameters = parameters(t, `{"type":"object","patternProperties":{}}`)
	if _, err := c.Chat.Completions.New(c.ctx, ask); !errors.As(err, &apiErr) || !strings.Contains(apiErr.Message, "patternProperties") {
		t.Errorf("a schema that cannot be honoured: %v", err)
	}
}

func parameters(t *testing.T, schema string) shared.FunctionParameters {
	t.Helper()
	var p shared.FunctionParameters
	if err := json.Unmarshal([]byte(schema), &p); err != nil {
		t.Fatal(err)
	}
	return p
}
