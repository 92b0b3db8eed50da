package proxy

import (
	"github.com/firstframe/firstframe/shared"
)

// shape is how one endpoint writes text: chat and plain completion differ only here.
type shape interface {
	object(stream bool) string
	idPrefix() string
	// delta is a streamed piece; the first of a choice may say more than the others.
	delta(index int, p piece) any
	// finish is the last streamed piece of a choice.
	finish(index int, reason string) any
	// whole is a choice of an answer that is not streamed.
	whole(index int, p piece, reason string) any
}

type chatShape struct{}

type chatDelta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`

	ReasoningContent string `json:"reasoning_content,omitempty"`

	ToolCalls []callJSON `json:"tool_calls,omitempty"`
}

type chatChunkChoice struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role"`
	Content *string `json:"content"` // null when there are calls and no text
	Refusal *string `json:"refusal"`

	ReasoningContent string `json:"reasoning_content,omitempty"`

	ToolCalls []callJSON `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index        int           `json:"index"`
	Message      chatText      `json:"message"`
	Logprobs     *chatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
}

func (chatShape) object(stream bool) string {
	if stream {
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

func (chatShape) idPrefix() string { return "chatcmpl-" }

func (chatShape) delta(index int, p piece) any {
	c := chatChunkChoice{Index: index, Logprobs: toChatLogprobs(p.probs), Delta: chatDelta{
		Content: p.text, ReasoningContent: p.reasoning, ToolCalls: toPieces(p.calls),
	}}
	if p.first {
		c.Delta.Role = "assistant"
	}
	return c
}

func (chatShape) finish(index int, reason string) any {
	return chatChunkChoice{Index: index, FinishReason: &reason}
}

func (chatShape) whole(index int, p piece, reason string) any {
	message := chatText{Role: "assistant", Content: &p.text, ReasoningContent: p.reasoning, ToolCalls: joinCalls(p.calls)}
	if p.text == "" && len(p.calls) > 0 {
		message.Content = nil
	}
	return chatChoice{Index: index, Message: message, Logprobs: toChatLogprobs(p.probs), FinishReason: reason}
}

type textShape struct{}

type textChoice struct {
	Index        int           `json:"index"`
	Text         string        `json:"text"`
	Logprobs     *textLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
}

func (textShape) object(bool) string { return "text_completion" }
func (textShape) idPrefix() string   { return "cmpl-" }

func (textShape) delta(index int, p piece) any {
	return textChoice{Index: index, Text: p.text, Logprobs: toTextLogprobs(p)}
}

func (textShape) finish(index int, reason string) any {
	return textChoice{Index: index, FinishReason: &reason}
}

func (textShape) whole(index int, p piece, reason string) any {
	return textChoice{Index: index, Text: p.text, Logprobs: toTextLogprobs(p), FinishReason: &reason}
}

// envelope is what both endpoints wrap their choices in.
type envelope struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	SystemFingerprint string       `json:"system_fingerprint,omitempty"`
	Choices           []any        `json:"choices"`
	Usage             *usageJSON   `json:"usage,omitempty"`
	Timings           *timingsJSON `json:"timings,omitempty"`
}

type usageJSON struct {
	PromptTokens        int           `json:"prompt_tokens"`
	CompletionTokens    int           `json:"completion_tokens"`
	TotalTokens         int           `json:"total_tokens"`
	PromptTokensDetails promptDetails `json:"prompt_tokens_details"`

	CompletionTokensDetails completionDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

type completionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// add counts a further choice of the same prompt.
func (u *usageJSON) add(n shared.Usage) {
	if u.PromptTokens == 0 {
		u.PromptTokens = n.PromptTokens
		u.PromptTokensDetails.CachedTokens = n.CachedTokens
	}
	u.CompletionTokens += n.CompletionTokens
	u.CompletionTokensDetails.ReasoningTokens += n.ReasoningTokens
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}

// timingsJSON has llama-server's field names, with the phases beside them.
type timingsJSON struct {
	CacheN             int                `json:"cache_n"`
	PromptN            int                `json:"prompt_n"`
	PromptMS           float64            `json:"prompt_ms"`
	PromptPerSecond    float64            `json:"prompt_per_second"`
	PredictedN         int                `json:"predicted_n"`
	PredictedMS        float64            `json:"predicted_ms"`
	PredictedPerSecond float64            `json:"predicted_per_second"`
	PhaseMS            map[string]float64 `json:"phase_ms"`
	FirstChunkMS       float64            `json:"first_chunk_ms"`
	FullResponseMS     float64            `json:"full_response_ms"`
	SlotHit            bool               `json:"slot_hit"`
	MissReason         string             `json:"miss_reason,omitempty"`
	DivergedAtToken    int                `json:"diverged_at_token,omitzero"`
	ActivationMS       map[string]float64 `json:"activation_ms,omitempty"`
	SlotID             string             `json:"slot_id"`
	Identity           identityJSON       `json:"identity"`
}

func toTimings(m shared.Measured) *timingsJSON {
	t := &timingsJSON{
		CacheN:         m.Usage.CachedTokens,
		PromptN:        m.Usage.PromptTokens - m.Usage.CachedTokens,
		PromptMS:       shared.Milliseconds(m.Prompt),
		PredictedN:     m.Usage.CompletionTokens,
		PredictedMS:    shared.Milliseconds(m.Predicted),
		PhaseMS:        m.Phases.MS(),
		FirstChunkMS:   shared.Milliseconds(m.FirstChunk),
		FullResponseMS: shared.Milliseconds(m.FullResponse),
		SlotHit:        m.SlotHit,
		MissReason:     m.MissReason, DivergedAtToken: m.DivergedAtToken,
		ActivationMS: activationMS(m.Activation),
		SlotID:       m.SlotID,
		Identity:     toIdentityJSON(m.Identity),
	}
	if m.Prompt > 0 {
		t.PromptPerSecond = float64(t.PromptN) / m.Prompt.Seconds()
	}
	if m.Predicted > 0 {
		t.PredictedPerSecond = float64(t.PredictedN) / m.Predicted.Seconds()
	}
	return t
}

// activationMS splits the activation of a slot that was not resident.
func activationMS(d shared.ActivationDetail) map[string]float64 {
	if d == (shared.ActivationDetail{}) {
		return nil
	}
	return map[string]float64{
		"spawn": shared.Milliseconds(d.Spawn), "prefetch": shared.Milliseconds(d.Prefetch),
		"transfer": shared.Milliseconds(d.Transfer), "warmup": shared.Milliseconds(d.Warmup),
		"canary": shared.Milliseconds(d.Canary),
	}
}
