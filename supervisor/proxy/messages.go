package proxy

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// chatInput is what Anthropic's two endpoints read in the same way: all that
// becomes the prompt.
type chatInput struct {
	Model      string           `json:"model"`
	Messages   []messageTurn    `json:"messages"`
	System     jsontext.Value   `json:"system"`
	Tools      []jsontext.Value `json:"tools"`
	ToolChoice jsontext.Value   `json:"tool_choice"`
	Thinking   *thinkingConfig  `json:"thinking"`
	Output     outputConfig     `json:"output_config"`

	CacheControl jsontext.Value `json:"cache_control"` // pages are kept anyway

	MCPServers        jsontext.Value `json:"mcp_servers"`
	ContextManagement jsontext.Value `json:"context_management"`
	Speed             jsontext.Value `json:"speed"`
}

// messagesRequest is the body of /v1/messages.
type messagesRequest struct {
	chatInput     `json:",embed"`
	MaxTokens     *int       `json:"max_tokens"`
	Stream        bool       `json:"stream"`
	StopSequences stringList `json:"stop_sequences"`
	Temperature   *float64   `json:"temperature"`
	TopK          *int       `json:"top_k"`
	TopP          *float64   `json:"top_p"`

	// What never changes an answer.
	Metadata    messagesMetadata `json:"metadata"`
	ServiceTier string           `json:"service_tier"`

	Container    jsontext.Value `json:"container"`
	InferenceGeo jsontext.Value `json:"inference_geo"`
	Diagnostics  jsontext.Value `json:"diagnostics"`
}

type messagesMetadata struct {
	UserID *string `json:"user_id"`
}

type messageTurn struct {
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
}

// thinkingConfig says whether the model is to think. How long it does is up to it.
type thinkingConfig struct {
	Type         string `json:"type"`
	BudgetTokens *int   `json:"budget_tokens"`
	Display      string `json:"display"`
}

type outputConfig struct {
	Effort jsontext.Value `json:"effort"`
	Format *struct {
		Type   string         `json:"type"`
		Schema jsontext.Value `json:"schema"`
	} `json:"format"`
}

// messagesTool is a function as Anthropic describes it.
type messagesTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"input_schema"`

	CacheControl        jsontext.Value `json:"cache_control"`
	Strict              *bool          `json:"strict"`
	EagerInputStreaming *bool          `json:"eager_input_streaming"`

	DeferLoading   jsontext.Value `json:"defer_loading"`
	AllowedCallers jsontext.Value `json:"allowed_callers"`
	InputExamples  jsontext.Value `json:"input_examples"`
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	nameRequest(w)
	s.complete(w, r, &messagesRequest{})
}

func (r *messagesRequest) operation() string { return "chat" }

func (r *messagesRequest) choices() (int, error) { return 1, nil }

func (r *messagesRequest) streamed() bool { return r.Stream }

// toShared turns the body into the runtime's request.
func (r *messagesRequest) toShared() (shared.GenerateRequest, error) {
	if err := unsupported(map[string]jsontext.Value{
		"container": r.Container, "inference_geo": r.InferenceGeo, "diagnostics": r.Diagnostics,
	}, "container", "inference_geo", "diagnostics"); err != nil {
		return shared.GenerateRequest{}, err
	}
	if err := r.StopSequences.check("stop_sequences"); err != nil {
		return shared.GenerateRequest{}, err
	}
	options := sampling{Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, Stop: r.StopSequences}
	req, err := options.common(r.Model, "max_tokens", r.MaxTokens)
	if err != nil {
		return req, err
	}
	if err := r.fill(&req); err != nil {
		return req, err
	}
	if r.MaxTokens == nil {
		return req, badRequest("missing_parameter", "max_tokens", "max_tokens is missing")
	}
	return req, nil
}

// fill reads the prompt and what the answer has to be.
func (in *chatInput) fill(req *shared.GenerateRequest) error {
	if in.Model == "" {
		return badRequest("missing_parameter", "model", "model is missing")
	}
	if err := unsupported(map[string]jsontext.Value{
		"mcp_servers": in.MCPServers, "context_management": in.ContextManagement, "speed": in.Speed,
		"output_config.effort": in.Output.Effort,
	}, "mcp_servers", "context_management", "speed", "output_config.effort"); err != nil {
		return err
	}
	var err error
	if req.Messages, err = readTurns(in.System, in.Messages); err != nil {
		return err
	}
	if err := in.think(req); err != nil {
		return err
	}
	if f := in.Output.Format; f != nil {
		const param = "output_config.format"
		if f.Type != "json_schema" {
			return badRequest("invalid_value", param, "%s is of type json_schema", param)
		}
		if req.Grammar, err = formatGrammar(f.Type, f.Schema, param, param+".schema"); err != nil {
			return err
		}
	}
	return in.setTools(req)
}

func (in *chatInput) think(req *shared.GenerateRequest) error {
	if in.Thinking == nil {
		return nil
	}
	switch in.Thinking.Type {
	case "enabled", "adaptive":
	case "disabled":
		req.NoThinking = true
	default:
		return badRequest("invalid_value", "thinking", "thinking is of type enabled, adaptive or disabled")
	}
	if d := in.Thinking.Display; d != "" && d != "summarized" {
		return badRequest("unsupported_parameter", "thinking.display", "thinking.display %q is not supported by this version", d)
	}
	return nil
}

func (in *chatInput) setTools(req *shared.GenerateRequest) error {
	for _, v := range in.Tools {
		if kind := typeOf(v); kind != "" && kind != "custom" {
			return unsupportedTool(kind)
		}
		var t messagesTool
		if err := decodeWithin(v, &t, "tools"); err != nil {
			return err
		}
		if err := unsupported(map[string]jsontext.Value{
			"tools.defer_loading": t.DeferLoading, "tools.allowed_callers": t.AllowedCallers, "tools.input_examples": t.InputExamples,
		}, "tools.defer_loading", "tools.allowed_callers", "tools.input_examples"); err != nil {
			return err
		}
		if err := addTool(req, functionJSON{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}); err != nil {
			return err
		}
	}
	if err := in.chooseTool(req); err != nil {
		return err
	}
	return checkTools(req)
}

func (in *chatInput) chooseTool(req *shared.GenerateRequest) error {
	var choice struct {
		Type                   string `json:"type"`
		Name                   string `json:"name"`
		DisableParallelToolUse bool   `json:"disable_parallel_tool_use"`
	}
	if len(in.ToolChoice) == 0 || in.ToolChoice.Kind() == 'n' {
		return nil
	}
	if err := decodeWithin(in.ToolChoice, &choice, "tool_choice"); err != nil {
		return err
	}
	req.OneToolCall = choice.DisableParallelToolUse
	switch choice.Type {
	case "auto":
	case "none":
		req.Tools = nil
	case "any":
		if len(req.Tools) == 0 {
			return badRequest("invalid_value", "tool_choice", "tool_choice needs tools")
		}
		req.ToolChoice = shared.ToolRequired
	case "tool":
		return chooseOne(req, choice.Name)
	default:
		return badRequest("invalid_value", "tool_choice", "tool_choice is of type auto, any, tool or none")
	}
	return nil
}

// countReply is the answer of /v1/messages/count_tokens.
type countReply struct {
	InputTokens int `json:"input_tokens"`
}

// countTokens counts the prompt that a chat makes. It is the one that an answer
// would be computed from: the slot's worker makes both.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	nameRequest(w)
	n, err := s.count(w, r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, countReply{InputTokens: n})
}

func (s *Server) count(w http.ResponseWriter, r *http.Request) (int, error) {
	var body chatInput
	if err := decodeBody(w, r, &body); err != nil {
		return 0, err
	}
	var req shared.GenerateRequest
	if err := body.fill(&req); err != nil {
		return 0, err
	}
	release, err := s.takePlace()
	if err != nil {
		return 0, err
	}
	defer release()
	tokens, err := s.frontend.Tokenize(r.Context(), shared.TokenizeRequest{
		Requirement: parseModel(body.Model), Messages: req.Messages, Tools: req.Tools, NoThinking: req.NoThinking,
	})
	return len(tokens), err
}
