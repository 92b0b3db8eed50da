package proxy

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// responseBody is a response: what was asked for comes back in it.
type responseBody struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	CompletedAt        int64              `json:"completed_at,omitzero"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	Error              *responseError     `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []responseItem     `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Reasoning          reasoningEcho      `json:"reasoning"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	Text               responsesTextEcho  `json:"text"`
	ToolChoice         jsontext.Value     `json:"tool_choice"`
	Tools              []jsontext.Value   `json:"tools"`
	TopP               float64            `json:"top_p"`
	Truncation         string             `json:"truncation"`
	Usage              *responseUsage     `json:"usage"`
	User               string             `json:"user,omitempty"`
	Metadata           map[string]string  `json:"metadata"`
	Timings            *timingsJSON       `json:"timings,omitempty"`
}

// reasoningEcho says that nothing was asked for.
type reasoningEcho struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type responsesTextEcho struct {
	Format jsontext.Value `json:"format"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens         int               `json:"input_tokens"`
	InputTokensDetails  promptDetails     `json:"input_tokens_details"`
	OutputTokens        int               `json:"output_tokens"`
	OutputTokensDetails completionDetails `json:"output_tokens_details"`
	TotalTokens         int               `json:"total_tokens"`
}

func toResponseUsage(u shared.Usage) *responseUsage {
	return &responseUsage{
		InputTokens: u.PromptTokens, InputTokensDetails: promptDetails{CachedTokens: u.CachedTokens},
		OutputTokens: u.CompletionTokens, OutputTokensDetails: completionDetails{ReasoningTokens: u.ReasoningTokens},
		TotalTokens: u.PromptTokens + u.CompletionTokens,
	}
}

// echo is what a response says of its request.
func (r *responsesRequest) echo() responseBody {
	b := responseBody{
		Object: "response", Instructions: r.Instructions, MaxOutputTokens: r.MaxOutputTokens, User: r.User,
		ParallelToolCalls: r.ParallelToolCalls == nil || *r.ParallelToolCalls,
		Temperature:       defaultTemperature, TopP: defaultTopP, Truncation: "disabled",
		Text: responsesTextEcho{Format: jsontext.Value(`{"type":"text"}`)}, ToolChoice: jsontext.Value(`"auto"`),
		Tools: r.Tools, Metadata: r.Metadata,
	}
	if r.Temperature != nil {
		b.Temperature = *r.Temperature
	}
	if r.TopP != nil {
		b.TopP = *r.TopP
	}
	if f := r.Text.Format; len(f) > 0 && f.Kind() != 'n' {
		b.Text.Format = f
	}
	if c := r.ToolChoice; len(c) > 0 && c.Kind() != 'n' {
		b.ToolChoice = c
	}
	return b
}
