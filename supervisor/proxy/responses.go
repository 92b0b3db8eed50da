package proxy

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// responsesRequest is the body of /v1/responses.
type responsesRequest struct {
	Model           string         `json:"model"`
	Input           jsontext.Value `json:"input"`
	Instructions    *string        `json:"instructions"`
	MaxOutputTokens *int           `json:"max_output_tokens"`
	delivery        `json:",embed"`
	sampling        `json:",embed"`

	Tools             []jsontext.Value  `json:"tools"`
	ToolChoice        jsontext.Value    `json:"tool_choice"`
	ParallelToolCalls *bool             `json:"parallel_tool_calls"`
	Text              responsesText     `json:"text"`
	Include           []string          `json:"include"`
	TopLogprobs       *int              `json:"top_logprobs"`
	Truncation        string            `json:"truncation"`
	Reasoning         responsesThinking `json:"reasoning"`
	Store             bool              `json:"store"`

	// What never changes an answer.
	User                 string            `json:"user"`
	SafetyIdentifier     string            `json:"safety_identifier"`
	Metadata             map[string]string `json:"metadata"`
	ServiceTier          string            `json:"service_tier"`
	PromptCacheKey       string            `json:"prompt_cache_key"`
	PromptCacheRetention string            `json:"prompt_cache_retention"`

	// What is refused when it asks for anything.
	PreviousResponseID jsontext.Value `json:"previous_response_id"`
	Conversation       jsontext.Value `json:"conversation"`
	Background         jsontext.Value `json:"background"`
	Prompt             jsontext.Value `json:"prompt"`
	MaxToolCalls       jsontext.Value `json:"max_tool_calls"`
	ContextManagement  jsontext.Value `json:"context_management"`
	Moderation         jsontext.Value `json:"moderation"`
}

type responsesText struct {
	Format    jsontext.Value `json:"format"`
	Verbosity jsontext.Value `json:"verbosity"`
}

type responsesThinking struct {
	Effort          jsontext.Value `json:"effort"`
	Summary         jsontext.Value `json:"summary"`
	GenerateSummary jsontext.Value `json:"generate_summary"`
}

// responsesFormat is a format with its schema beside the type.
type responsesFormat struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
	Strict      *bool          `json:"strict"`
}

// responsesTool is a function beside its type.
type responsesTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      *bool          `json:"strict"`
}

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	s.complete(w, r, &responsesRequest{})
}

func (r *responsesRequest) operation() string { return "chat" }

func (r *responsesRequest) choices() (int, error) {
	if r.N != nil && *r.N != 1 {
		return 0, badRequest("unsupported_parameter", "n", "a response is one answer")
	}
	return 1, nil
}

func (r *responsesRequest) check() error {
	if r.Model == "" {
		return badRequest("missing_parameter", "model", "model is missing")
	}
	if given(r.PreviousResponseID) {
		return badRequest("unsupported_parameter", "previous_response_id",
			"previous_response_id is not supported by this version, which stores no responses: send the earlier items in input")
	}
	if r.Store {
		return badRequest("unsupported_parameter", "store",
			"store is not supported by this version, which stores no responses: leave it out or set it to false")
	}
	if r.Truncation != "" && r.Truncation != "disabled" {
		return badRequest("unsupported_parameter", "truncation", "truncation %q is not supported by this version", r.Truncation)
	}
	for _, name := range r.Include {
		switch name {
		case includeLogprobs, "reasoning.encrypted_content": // reasoning comes as text, which can be sent back
		default:
			return badRequest("unsupported_parameter", "include", "include %q is not supported by this version", name)
		}
	}
	return unsupported(map[string]jsontext.Value{
		"conversation": r.Conversation, "background": r.Background, "prompt": r.Prompt, "max_tool_calls": r.MaxToolCalls,
		"context_management": r.ContextManagement, "moderation": r.Moderation, "text.verbosity": r.Text.Verbosity,
		"reasoning.effort": r.Reasoning.Effort, "reasoning.summary": r.Reasoning.Summary,
		"reasoning.generate_summary": r.Reasoning.GenerateSummary,
	}, "conversation", "background", "prompt", "max_tool_calls", "context_management", "moderation", "text.verbosity",
		"reasoning.effort", "reasoning.summary", "reasoning.generate_summary")
}

const includeLogprobs = "message.output_text.logprobs"

// toShared turns the body into the runtime's request.
func (r *responsesRequest) toShared() (shared.GenerateRequest, error) {
	if err := r.check(); err != nil {
		return shared.GenerateRequest{}, err
	}
	req, err := r.common(r.Model, "max_output_tokens", r.MaxOutputTokens)
	if err != nil {
		return req, err
	}
	req.NoThinking = noThinking(r.Reasoning.Effort)
	if r.Instructions != nil && *r.Instructions != "" {
		req.Messages = []shared.Message{{Role: "system", Content: *r.Instructions}}
	}
	turns, err := readItems(r.Input)
	if err != nil {
		return req, err
	}
	req.Messages = append(req.Messages, turns...)
	demanded, err := r.grammar()
	if err != nil {
		return req, err
	}
	if err := constrain(&req, r.Grammar, demanded); err != nil {
		return req, err
	}
	if err := r.setTools(&req); err != nil {
		return req, err
	}
	return req, r.wantLogprobs(&req)
}

// grammar is what text.format demands.
func (r *responsesRequest) grammar() (string, error) {
	const param = "text.format"
	if len(r.Text.Format) == 0 || r.Text.Format.Kind() == 'n' {
		return "", nil
	}
	var f responsesFormat
	if err := decodeWithin(r.Text.Format, &f, param); err != nil {
		return "", err
	}
	return formatGrammar(f.Type, f.Schema, param, param+".schema")
}

func (r *responsesRequest) setTools(req *shared.GenerateRequest) error {
	for _, v := range r.Tools {
		if kind := typeOf(v); kind != "function" {
			return unsupportedTool(kind)
		}
		var t responsesTool
		if err := decodeWithin(v, &t, "tools"); err != nil {
			return err
		}
		f := functionJSON{Name: t.Name, Parameters: t.Parameters}
		if t.Description != nil {
			f.Description = *t.Description
		}
		if err := addTool(req, f); err != nil {
			return err
		}
	}
	req.OneToolCall = r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	if err := chooseTool(req, r.ToolChoice, func() (string, bool) {
		var one struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		err := decodeJSON(r.ToolChoice, &one)
		return one.Name, err == nil && one.Type == "function"
	}); err != nil {
		return err
	}
	return checkTools(req)
}

func (r *responsesRequest) wantLogprobs(req *shared.GenerateRequest) error {
	on := slices.Contains(r.Include, includeLogprobs)
	return chatLogprobsWanted(&on, r.TopLogprobs, req)
}
