package e2e

import (
	"fmt"
	"testing"

	"github.com/openai/openai-go/v3"
)

// thinkTemplate has the model think from its first token on. As it was not
// trained to, it never comes to an end with it.
const thinkTemplate = `{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' }}` +
	`{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{{ m.content + '<|end|>' }}{% endfor %}{{ '<|assistant|><think>\n' }}`

// thinkSlot is a slot whose model thinks.
func thinkSlot(t *testing.T) string {
	return fmt.Sprintf(`
model "thinker" { path = %q }
slot "thinker" {
  model   = model.thinker
  threads = 1
  context { tokens = 512 }
}
`, templated(t, thinkTemplate))
}

// TestReasoning has a model of which the template says that it thinks.
func TestReasoning(t *testing.T) {
	c := clientOf(t, thinkSlot(t))
	ask := story("thinker")
	whole, err := c.Chat.Completions.New(c.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	message := whole.Choices[0].Message
	thought := message.JSON.ExtraFields["reasoning_content"].Raw()
	if message.Content != "" || len(thought) < 20 || whole.Usage.CompletionTokensDetails.ReasoningTokens != whole.Usage.CompletionTokens {
		t.Errorf("%s", whole.RawJSON())
	}
	stream := c.Chat.Completions.NewStreaming(c.ctx, ask)
	pieces := 0
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if choice.Delta.JSON.ExtraFields["reasoning_content"].Raw() != "" {
				pieces++
			}
			if choice.Delta.Content != "" {
				t.Errorf("said %q", choice.Delta.Content)
			}
		}
	}
	if err := stream.Err(); err != nil || pieces < 2 {
		t.Errorf("%d pieces, %v", pieces, err)
	}
	// A grammar leaves no room for thoughts: all of the answer follows it.
	ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &openai.ResponseFormatJSONObjectParam{}}
	ask.MaxTokens = openai.Int(200)
	if object, err := c.Chat.Completions.New(c.ctx, ask); err != nil || object.Choices[0].Message.Content == "" {
		t.Errorf("an object: %+v, %v", object, err)
	}
}
