package proxy

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// ollamaCommon is what Ollama's requests that generate share.
type ollamaCommon struct {
	Model       string         `json:"model"`
	Stream      *bool          `json:"stream"`
	Format      jsontext.Value `json:"format"`
	KeepAlive   jsontext.Value `json:"keep_alive"`
	Options     *ollamaOptions `json:"options"`
	Think       jsontext.Value `json:"think"`
	Logprobs    *bool          `json:"logprobs"`
	TopLogprobs *int           `json:"top_logprobs"`
	// A prompt that is too long is an error, whatever these say.
	Truncate        *bool          `json:"truncate"`
	Shift           *bool          `json:"shift"`
	DebugRenderOnly jsontext.Value `json:"_debug_render_only"`
}

// ollamaChatRequest is the body of /api/chat.
type ollamaChatRequest struct {
	ollamaCommon `json:",embed"`
	Messages     []ollamaMessage `json:"messages"`
	Tools        []ollamaTool    `json:"tools"`
	// Ollama itself has no such choice; it is the one of the OpenAI endpoints.
	ToolChoice jsontext.Value `json:"tool_choice"`
}

// ollamaGenerateRequest is the body of /api/generate.
type ollamaGenerateRequest struct {
	ollamaCommon `json:",embed"`
	Prompt       string         `json:"prompt"`
	System       string         `json:"system"`
	Raw          bool           `json:"raw"`
	Suffix       jsontext.Value `json:"suffix"`
	Template     jsontext.Value `json:"template"`
	Context      jsontext.Value `json:"context"`
	Images       jsontext.Value `json:"images"`
	Width        jsontext.Value `json:"width"`
	Height       jsontext.Value `json:"height"`
	Steps        jsontext.Value `json:"steps"`
}

// ollamaMessage is a message of a request or of an answer.
type ollamaMessage struct {
	Role       string         `json:"role"`
	Content    messageText    `json:"content"`
	Thinking   string         `json:"thinking,omitempty"`
	ToolCalls  []ollamaCall   `json:"tool_calls,omitempty"`
	ToolName   string         `json:"tool_name,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
	Images     jsontext.Value `json:"images,omitempty"`
}

// ollamaCall is a call whose arguments are an object and not its text.
type ollamaCall struct {
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function ollamaFunction `json:"function"`
}

type ollamaFunction struct {
	Index       *int           `json:"index,omitempty"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"` // that some clients give back
	Arguments   jsontext.Value `json:"arguments"`
}

// ollamaTool is a tool with what Ollama's own client may send beside the function.
type ollamaTool struct {
	toolJSON `json:",embed"`
	Items    jsontext.Value `json:"items"`
}

// parameterless finds what Ollama's own client writes for a function without
// parameters, which is no schema.
func (t *ollamaTool) parameterless() bool {
	var p struct {
		Type       string         `json:"type"`
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	return json.Unmarshal(t.Function.Parameters, &p) == nil &&
		(p.Type == "" || p.Type == "object") && p.Properties.Kind() == 'n' && len(p.Required) == 0
}

// ollamaAsk is a decoded request with what the runtime's request does not hold.
type ollamaAsk struct {
	shared.GenerateRequest
	model   string // as the client wrote it
	chat    bool
	stream  bool
	context int  // tokens that the slot's context has to have
	thinks  bool // the model has to be one that thinks
	only    bool // to load or to unload the model, without a prompt
	unload  bool
}

// ollamaModel drops the tag that Ollama's clients add to a name without one.
func ollamaModel(name string) string { return strings.TrimSuffix(name, ":latest") }

// toChat gives the request in the form of the chat endpoint, which checks it.
func (c *ollamaCommon) toChat() (chatRequest, error) {
	if err := unsupported(map[string]jsontext.Value{"_debug_render_only": c.DebugRenderOnly}, "_debug_render_only"); err != nil {
		return chatRequest{}, err
	}
	if c.Options == nil {
		c.Options = &ollamaOptions{}
	}
	sampled, err := c.Options.sampling()
	if err != nil {
		return chatRequest{}, err
	}
	limit, err := c.Options.limit()
	if err != nil {
		return chatRequest{}, err
	}
	format, err := ollamaFormat(c.Format)
	if err != nil {
		return chatRequest{}, err
	}
	r := chatRequest{Model: ollamaModel(c.Model), MaxTokens: limit, ResponseFormat: format, Logprobs: c.Logprobs, sampling: sampled}
	if string(c.Think) == "false" {
		r.ReasoningEffort = jsontext.Value(effortNone)
	}
	if c.TopLogprobs != nil && *c.TopLogprobs != 0 {
		r.TopLogprobs = c.TopLogprobs
	}
	return r, nil
}

// ask reads what is beside the request itself. Without a prompt it is about the
// model alone.
func (c *ollamaCommon) ask(chat, prompt bool) (ollamaAsk, error) {
	if c.Model == "" {
		return ollamaAsk{}, badRequest("missing_parameter", "model", "model is missing")
	}
	a := ollamaAsk{model: c.Model, chat: chat, stream: c.Stream == nil || *c.Stream, only: !prompt}
	a.Requirement = parseModel(ollamaModel(c.Model))
	none, err := unloads(c.KeepAlive)
	if err != nil {
		return a, err
	}
	a.unload = none && !prompt
	if a.thinks, err = ollamaThinks(c.Think); err != nil {
		return a, err
	}
	if c.Options != nil {
		a.context, err = c.Options.context()
	}
	return a, err
}

// ollamaThinks reports whether a request asks for thoughts. As with most models of
// Ollama, how far they go is left to the model, whatever the level.
func ollamaThinks(v jsontext.Value) (bool, error) {
	switch string(v) {
	case "", "null", "false":
		return false, nil
	case "true", `"low"`, `"medium"`, `"high"`, `"max"`:
		return true, nil
	default:
		return false, badRequest("invalid_value", "think", "think is true, false, \"low\", \"medium\", \"high\" or \"max\"")
	}
}

// ollamaFormat reads "json" or a schema.
func ollamaFormat(v jsontext.Value) (*responseFormat, error) {
	switch {
	case len(v) == 0 || v.Kind() == 'n' || string(v) == `""`:
		return nil, nil
	case string(v) == `"json"`:
		return &responseFormat{Type: "json_object"}, nil
	case v.Kind() == '{':
		return &responseFormat{Type: "json_schema", JSONSchema: &jsonSchema{Schema: v}}, nil
	default:
		return nil, badRequest("invalid_value", "format", "format is \"json\" or a JSON schema")
	}
}

func (r *ollamaChatRequest) toAsk() (ollamaAsk, error) {
	a, err := r.ask(true, len(r.Messages) > 0)
	if err != nil || a.only {
		return a, err
	}
	chat, err := r.toChat()
	if err != nil {
		return a, err
	}
	if len(r.Tools) > 0 && chat.ResponseFormat != nil {
		return a, badRequest("invalid_value", "tools", "tools cannot be used with format")
	}
	chat.ToolChoice = r.ToolChoice
	for _, t := range r.Tools {
		if t.parameterless() {
			t.Function.Parameters = nil
		}
		chat.Tools = append(chat.Tools, t.toolJSON)
	}
	if chat.Messages, err = ollamaMessages(r.Messages); err != nil {
		return a, err
	}
	a.GenerateRequest, err = chat.toShared()
	return a, err
}

// ollamaMessages gives calls and their results the ids that tie them together,
// where a client left them out and counts on their order.
func ollamaMessages(in []ollamaMessage) ([]chatMessage, error) {
	var out []chatMessage
	var open []callJSON // calls that no message has answered yet
	for i, m := range in {
		if given(m.Images) {
			return nil, badRequest("unsupported_parameter", "images", "images are not supported by this version")
		}
		message := chatMessage{Role: m.Role, Content: m.Content, ReasoningContent: m.Thinking, ToolCallID: m.ToolCallID}
		for n, c := range m.ToolCalls {
			call := callJSON{ID: c.ID, Type: "function", Function: callFunction{Name: c.Function.Name, Arguments: string(c.Function.Arguments)}}
			if call.ID == "" {
				call.ID = fmt.Sprintf("call_%d_%d", i, n)
			}
			if len(c.Function.Arguments) == 0 || c.Function.Arguments.Kind() == 'n' {
				call.Function.Arguments = "{}"
			}
			message.ToolCalls = append(message.ToolCalls, call)
		}
		if m.Role == "assistant" {
			open = append([]callJSON(nil), message.ToolCalls...)
		}
		if m.Role == "tool" && m.ToolCallID == "" {
			message.ToolCallID = "call"
			for n, c := range open {
				if m.ToolName == "" || m.ToolName == c.Function.Name {
					message.ToolCallID = c.ID
					open = append(open[:n], open[n+1:]...)
					break
				}
			}
		}
		out = append(out, message)
	}
	return out, nil
}

func (r *ollamaGenerateRequest) toAsk() (ollamaAsk, error) {
	a, err := r.ask(false, r.Prompt != "")
	if err != nil || a.only {
		return a, err
	}
	if err := unsupported(map[string]jsontext.Value{
		"suffix": r.Suffix, "template": r.Template, "context": r.Context, "images": r.Images,
	}, "suffix", "template", "context", "images"); err != nil {
		return a, err
	}
	chat, err := r.toChat()
	if err != nil {
		return a, err
	}
	if r.System != "" {
		chat.Messages = append(chat.Messages, chatMessage{Role: "system", Content: messageText(r.System)})
	}
	chat.Messages = append(chat.Messages, chatMessage{Role: "user", Content: messageText(r.Prompt)})
	if a.GenerateRequest, err = chat.toShared(); err != nil || !r.Raw {
		return a, err
	}
	if r.System != "" {
		return a, badRequest("invalid_value", "raw", "raw and system exclude each other")
	}
	a.Messages, a.Prompt = nil, r.Prompt
	return a, nil
}
