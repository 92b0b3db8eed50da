package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/firstframe/firstframe/internal/schematest"
)

// openAI is an unchanged client of OpenAI's on a proxy beside a server.
type openAI struct {
	openai.Client
	ctx context.Context
}

func openAIClient(t *testing.T) *openAI {
	t.Helper()
	return clientOf(t, twoSlots(t, sha256Q8))
}

// clientOf is a client of a server with this configuration.
func clientOf(t *testing.T, config string) *openAI {
	t.Helper()
	url := serve(t, config).proxy()
	return &openAI{openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0),
		option.WithRequestTimeout(patience)), t.Context()}
}

func story(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, MaxTokens: openai.Int(24), Temperature: openai.Float(0),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story about a fox.")},
	}
}

// TestOpenAIFeatures is what an unchanged client does beyond plain text.
func TestOpenAIFeatures(t *testing.T) {
	c := openAIClient(t)
	t.Run("logprobs", c.logprobs)
	t.Run("embeddings", c.embeddings)
	t.Run("structured output", c.structured)
}

func (c *openAI) logprobs(t *testing.T) {
	ask := story("storyteller:Q8_0")
	ask.Logprobs, ask.TopLogprobs = openai.Bool(true), openai.Int(3)
	whole, err := c.Chat.Completions.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	choice := whole.Choices[0]
	var spelled []byte
	for i, p := range choice.Logprobs.Content {
		for _, b := range p.Bytes {
			spelled = append(spelled, byte(b))
		}
		var sum float64
		for _, a := range p.TopLogprobs {
			sum += math.Exp(a.Logprob)
		}
		if len(p.TopLogprobs) != 3 || p.TopLogprobs[0].Token != p.Token || p.TopLogprobs[0].Logprob != p.Logprob || sum > 1.00001 {
			t.Errorf("greedy token %d is not the likeliest: %s", i, p.RawJSON())
		}
	}
	if string(spelled) != choice.Message.Content || len(choice.Logprobs.Content) != int(whole.Usage.CompletionTokens) {
		t.Errorf("the tokens spell %q, the text is %q", spelled, choice.Message.Content)
	}

	stream := c.Chat.Completions.NewStreaming(c.ctx, ask)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	streamed := all.Choices[0].Logprobs.Content
	if len(streamed) != len(choice.Logprobs.Content) {
		t.Fatalf("%d logprobs streamed, %d in one piece", len(streamed), len(choice.Logprobs.Content))
	}
	for i, p := range streamed {
		if p.Token != choice.Logprobs.Content[i].Token || math.Abs(p.Logprob-choice.Logprobs.Content[i].Logprob) > 0.2 {
			t.Errorf("token %d: streamed %s, in one piece %s", i, p.RawJSON(), choice.Logprobs.Content[i].RawJSON())
		}
	}

	text, err := c.Completions.New(c.ctx, openai.CompletionNewParams{
		Model: "storyteller:F16", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("The fox")},
		MaxTokens: openai.Int(8), Temperature: openai.Float(0), Logprobs: openai.Int(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := text.Choices[0].Logprobs
	n := int(text.Usage.CompletionTokens)
	if n == 0 || len(got.Tokens) != n || len(got.TokenLogprobs) != n || len(got.TopLogprobs) != n || got.TopLogprobs[0][got.Tokens[0]] != got.TokenLogprobs[0] {
		t.Errorf("completion: %s", text.RawJSON())
	}
}

// structured has the tiny model answer random schemas and another implementation
// check the answers.
func (c *openAI) structured(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range 200 / share {
		schema := schematest.Random(rnd)
		ask := story("storyteller:Q8_0")
		ask.MaxTokens, ask.Seed = openai.Int(450), openai.Int(int64(i+1))
		ask.Temperature = openai.Float(float64(i%3) / 2)
		ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Strict: openai.Bool(true), Schema: json.RawMessage(schema)},
		}}
		answer, err := c.Chat.Completions.New(c.ctx, ask)
		if err != nil {
			t.Fatalf("%v for %s", err, schema)
		}
		text := answer.Choices[0].Message.Content
		if err := schematest.Validate(schema, text); err != nil || answer.Choices[0].FinishReason != "stop" {
			t.Fatalf("%s\nanswered by %s (%s)\n%v", schema, text, answer.Choices[0].FinishReason, err)
		}
	}

	ask := story("storyteller:Q8_0")
	ask.MaxTokens = openai.Int(200)
	ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}}
	answer, err := c.Chat.Completions.New(c.ctx, ask)
	if err != nil || !strings.HasPrefix(answer.Choices[0].Message.Content, "{") {
		t.Errorf("any object: %+v, %v", answer, err)
	}

	ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: json.RawMessage(`{"type":"array","uniqueItems":true}`)},
	}}
	_, err = c.Chat.Completions.New(c.ctx, ask)
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || !strings.Contains(apiErr.Message, "uniqueItems") {
		t.Errorf("a schema that cannot be honoured: %v", err)
	}
}

func (c *openAI) embeddings(t *testing.T) {
	params := openai.EmbeddingNewParams{
		Model: "storyteller:F16",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"The fox is red.", "What is a slot?"}},
	}
	whole, err := c.Embeddings.New(c.ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Data) != 2 || whole.Data[1].Index != 1 || whole.Model != params.Model || whole.Usage.PromptTokens == 0 {
		t.Errorf("%s", whole.RawJSON())
	}
	var square float64
	for _, x := range whole.Data[0].Embedding {
		square += x * x
	}
	if math.Abs(square-1) > 1e-4 {
		t.Errorf("a vector of %d has length %v", len(whole.Data[0].Embedding), math.Sqrt(square))
	}
	params.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
	packed, err := c.Embeddings.New(c.ctx, params, option.WithJSONSet("user", "u"))
	if err != nil || !strings.Contains(packed.RawJSON(), `"embedding":"`) {
		t.Errorf("packed: %v", err)
	}
	params.Dimensions = openai.Int(8)
	var apiErr *openai.Error
	if _, err := c.Embeddings.New(c.ctx, params); !errors.As(err, &apiErr) || apiErr.StatusCode != 400 || apiErr.Param != "dimensions" {
		t.Errorf("dimensions: %v", err)
	}
}
