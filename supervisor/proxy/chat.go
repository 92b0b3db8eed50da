package proxy

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	MaxTokens           *int          `json:"max_tokens"`
	MaxCompletionTokens *int          `json:"max_completion_tokens"`
	delivery            `json:",embed"`
	sampling            `json:",embed"`
	neutral             `json:",embed"`

	Tools             []toolJSON      `json:"tools"`
	ToolChoice        jsontext.Value  `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	Functions         jsontext.Value  `json:"functions"`
	FunctionCall      jsontext.Value  `json:"function_call"`
	ResponseFormat    *responseFormat `json:"response_format"`
	Logprobs          *bool           `json:"logprobs"`
	TopLogprobs       *int            `json:"top_logprobs"`
	Audio             jsontext.Value  `json:"audio"`
	Modalities        jsontext.Value  `json:"modalities"`
	Prediction        jsontext.Value  `json:"prediction"`
	ReasoningEffort   jsontext.Value  `json:"reasoning_effort"`
	Verbosity         jsontext.Value  `json:"verbosity"`
	WebSearchOptions  jsontext.Value  `json:"web_search_options"`
}

// neutral holds parameters that never change an answer; they are accepted
// because unmodified clients send them.
type neutral struct {
	User             string            `json:"user"`
	SafetyIdentifier string            `json:"safety_identifier"`
	Metadata         map[string]string `json:"metadata"`
	Store            bool              `json:"store"`
	ServiceTier      string            `json:"service_tier"`
}

// delivery says how the answer is wanted.
type delivery struct {
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options"`
}

func (d delivery) streamed() bool { return d.Stream }

// usage reports whether a streamed answer ends with the token counts.
func (d delivery) usage() bool { return d.StreamOptions != nil && d.StreamOptions.IncludeUsage }

type streamOptions struct {
	IncludeUsage       bool `json:"include_usage"`
	IncludeObfuscation bool `json:"include_obfuscation"`
}

type chatMessage struct {
	Role       string      `json:"role"`
	Content    messageText `json:"content"`
	Name       string      `json:"name"`
	Refusal    *string     `json:"refusal"`
	ToolCalls  []callJSON  `json:"tool_calls"`
	ToolCallID string      `json:"tool_call_id"`

	ReasoningContent string `json:"reasoning_content"`
}

// messageText is a string or a list of text parts.
type messageText string

// UnmarshalJSONFrom reads either form. Parts other than text are refused by name.
func (t *messageText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case 'n', '"':
		return json.UnmarshalDecode(dec, (*string)(t))
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		// What other types hold is read so that they are refused by their type.
		ImageURL   jsontext.Value `json:"image_url"`
		InputAudio jsontext.Value `json:"input_audio"`
		File       jsontext.Value `json:"file"`
		Refusal    jsontext.Value `json:"refusal"`
	}
	if err := json.UnmarshalDecode(dec, &parts); err != nil {
		return err
	}
	var all string
	for _, p := range parts {
		if p.Type != "text" {
			return badRequest("unsupported_parameter", "messages", "content parts of type %q are not supported", p.Type)
		}
		all += p.Text
	}
	*t = messageText(all)
	return nil
}

// maxMessages is OpenAI's limit. What a template does with each message takes
// longer the more there are before it.
const maxMessages = 2048

func (r *chatRequest) check() error {
	if r.Model == "" {
		return badRequest("missing_parameter", "model", "model is missing")
	}
	if len(r.Messages) == 0 {
		return badRequest("missing_parameter", "messages", "messages is missing or empty")
	}
	if len(r.Messages) > maxMessages {
		return badRequest("invalid_value", "messages", "at most %d messages are allowed", maxMessages)
	}
	for i, m := range r.Messages {
		switch m.Role {
		case "":
			return badRequest("missing_parameter", fmt.Sprintf("messages.%d.role", i), "message %d has no role", i)
		case "system", "developer", "user", "assistant":
			if m.ReasoningContent != "" && m.Role != "assistant" {
				return badRequest("invalid_value", "messages", "messages of role %q do not reason", m.Role)
			}
			if m.ToolCallID != "" || len(m.ToolCalls) > 0 && m.Role != "assistant" {
				return badRequest("invalid_value", "messages", "messages of role %q call no tools and answer none", m.Role)
			}
		case "tool":
			if m.ToolCallID == "" {
				return badRequest("invalid_value", "messages", "messages of role tool need a tool_call_id")
			}
		default:
			return badRequest("invalid_value", "messages", "messages of role %q are not supported", m.Role)
		}
	}
	return unsupported(map[string]jsontext.Value{
		"functions": r.Functions, "function_call": r.FunctionCall,
		"audio": r.Audio, "modalities": r.Modalities,
		"prediction": r.Prediction, "reasoning_effort": r.ReasoningEffort, "verbosity": r.Verbosity,
		"web_search_options": r.WebSearchOptions,
	}, "functions", "function_call",
		"audio", "modalities", "prediction", "reasoning_effort", "verbosity", "web_search_options")
}

// toShared turns the body into the runtime's request.
func (r *chatRequest) toShared() (shared.GenerateRequest, error) {
	if err := r.check(); err != nil {
		return shared.GenerateRequest{}, err
	}
	limit, name := r.MaxCompletionTokens, "max_completion_tokens"
	if limit == nil {
		limit, name = r.MaxTokens, "max_tokens"
	}
	req, err := r.common(r.Model, name, limit)
	if err != nil {
		return shared.GenerateRequest{}, err
	}
	req.NoThinking = noThinking(r.ReasoningEffort)
	demanded, err := r.ResponseFormat.grammar()
	if err != nil {
		return shared.GenerateRequest{}, err
	}
	if err := constrain(&req, r.Grammar, demanded); err != nil {
		return shared.GenerateRequest{}, err
	}
	if err := r.setTools(&req); err != nil {
		return shared.GenerateRequest{}, err
	}
	if err := chatLogprobsWanted(r.Logprobs, r.TopLogprobs, &req); err != nil {
		return shared.GenerateRequest{}, err
	}
	for _, m := range r.Messages {
		role := m.Role
		if role == "developer" {
			role = "system"
		}
		calls, err := toToolCalls(m.ToolCalls)
		if err != nil {
			return shared.GenerateRequest{}, err
		}
		req.Messages = append(req.Messages, shared.Message{
			Role: role, Content: string(m.Content), ToolCalls: calls, ToolCallID: m.ToolCallID, Reasoning: m.ReasoningContent,
		})
	}
	return req, nil
}

// common fills in what chat and text completion share.
func (s sampling) common(model, limitName string, limit *int) (shared.GenerateRequest, error) {
	if err := s.Stop.check("stop"); err != nil {
		return shared.GenerateRequest{}, err
	}
	chosen, err := s.toShared()
	if err != nil {
		return shared.GenerateRequest{}, err
	}
	tokens, err := tokenLimit(limitName, limit)
	if err != nil {
		return shared.GenerateRequest{}, err
	}
	return shared.GenerateRequest{
		Requirement: parseModel(model), Sampling: chosen, MaxTokens: tokens, Stop: s.Stop, IgnoreEOS: s.IgnoreEOS,
	}, nil
}

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	s.complete(w, r, &chatRequest{})
}

func (r *chatRequest) operation() string { return "chat" }

func (r *chatRequest) form(h answerHead) form { return newChoicesForm(chatShape{}, h, r.usage()) }
