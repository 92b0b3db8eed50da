package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// proxy starts `firstframe proxy` beside a server and gives its address.
func (s *server) proxy(args ...string) (url string) {
	s.t.Helper()
	out := &lockedBuffer{new: make(chan struct{}, 1)}
	cmd := exec.Command(program.path, append([]string{"proxy", "--listen", "127.0.0.1:0", "--state-dir", s.state}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if s.t.Failed() {
			s.t.Logf("proxy printed:\n%s", out)
		}
	})
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		if line, _, ok := strings.Cut(out.String(), "\n"); ok {
			return line
		}
		select {
		case <-out.new:
		case <-ended:
			s.t.Fatalf("proxy ended: %s", out)
		case <-timeout.C:
			s.t.Fatal("proxy does not say where it listens")
		}
	}
}

// TestOpenAIClient is what an unchanged client of OpenAI's does.
func TestOpenAIClient(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	url := s.proxy("--api-key", "secret")
	client := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("secret"), option.WithMaxRetries(0))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	models, err := client.Models.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range models.Data {
		ids = append(ids, m.ID)
	}
	if got := strings.Join(ids, " "); got != "storyteller:F16 storyteller:Q8_0" {
		t.Errorf("models: %s", got)
	}
	if m, err := client.Models.Get(ctx, "storyteller:F16"); err != nil || m.ID != "storyteller:F16" {
		t.Errorf("model: %+v, %v", m, err)
	}

	ask := openai.ChatCompletionNewParams{
		Model: "storyteller:Q8_0", MaxTokens: openai.Int(24), Temperature: openai.Float(0),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story about a fox.")},
	}
	chat, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	text := chat.Choices[0].Message.Content
	if !strings.Contains(text, "fox") || chat.Model != ask.Model || chat.Usage.CompletionTokens != 24 || chat.Choices[0].FinishReason != "length" {
		t.Errorf("chat: %s", chat.RawJSON())
	}

	ask.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, ask)
	var all openai.ChatCompletionAccumulator
	var last string
	for stream.Next() {
		chunk := stream.Current()
		if !all.AddChunk(chunk) {
			t.Errorf("a chunk that does not belong: %s", chunk.RawJSON())
		}
		last = chunk.RawJSON()
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all.Choices) != 1 || all.Choices[0].Message.Content != text || all.Usage.CompletionTokens != 24 {
		t.Errorf("streamed %+v, want %q", all.Choices, text)
	}
	if !strings.Contains(last, `"slot_id":"q8"`) || !strings.Contains(last, `"model_revision":"sha256:`+sha256Q8) {
		t.Errorf("the last chunk names no identity: %s", last)
	}

	done, err := client.Completions.New(ctx, openai.CompletionNewParams{
		Model: "storyteller:F16", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("The fox")}, MaxTokens: openai.Int(8),
	})
	if err != nil || done.Choices[0].Text == "" || done.Usage.CompletionTokens == 0 {
		t.Errorf("completion: %+v, %v", done, err)
	}

	for status, bad := range map[int]openai.ChatCompletionNewParams{
		404: {Model: "storyteller", Messages: ask.Messages},
		400: {Model: ask.Model, Messages: ask.Messages, TopLogprobs: openai.Int(2)},
	} {
		_, err := client.Chat.Completions.New(ctx, bad)
		var apiErr *openai.Error
		if !errors.As(err, &apiErr) || apiErr.StatusCode != status || apiErr.Message == "" {
			t.Errorf("want %d: %v", status, err)
		}
	}
	stranger := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("guess"), option.WithMaxRetries(0))
	var apiErr *openai.Error
	if _, err := stranger.Models.List(ctx); !errors.As(err, &apiErr) || apiErr.StatusCode != 401 {
		t.Errorf("with a wrong key: %v", err)
	}
}
