package proxy

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	Model     string         `json:"model"`
	Prompt    jsontext.Value `json:"prompt"`
	MaxTokens *int           `json:"max_tokens"`
	delivery  `json:",embed"`
	sampling  `json:",embed"`
	neutral   `json:",embed"`

	BestOf   jsontext.Value `json:"best_of"`
	Echo     jsontext.Value `json:"echo"`
	Logprobs *int           `json:"logprobs"`
	Suffix   jsontext.Value `json:"suffix"`
}

// defaultCompletionTokens is OpenAI's default for this endpoint.
const defaultCompletionTokens = 16

func (r *completionRequest) toShared() (shared.GenerateRequest, error) {
	if r.Model == "" {
		return shared.GenerateRequest{}, badRequest("missing_parameter", "model", "model is missing")
	}
	if err := unsupported(map[string]jsontext.Value{
		"best_of": r.BestOf, "echo": r.Echo, "suffix": r.Suffix,
	}, "best_of", "echo", "suffix"); err != nil {
		return shared.GenerateRequest{}, err
	}
	req, err := r.common(r.Model, "max_tokens", r.MaxTokens)
	if err != nil {
		return shared.GenerateRequest{}, err
	}
	if r.MaxTokens == nil {
		req.MaxTokens = defaultCompletionTokens
	}
	if err := constrain(&req, r.Grammar, nil); err != nil {
		return shared.GenerateRequest{}, err
	}
	if r.Logprobs != nil {
		if err := wantLogprobs("logprobs", *r.Logprobs, &req); err != nil {
			return shared.GenerateRequest{}, err
		}
	}
	if err := readPrompt(r.Prompt, &req); err != nil {
		return shared.GenerateRequest{}, err
	}
	return req, nil
}

// readPrompt takes a text, a list of one text, or a list of token ids.
func readPrompt(v jsontext.Value, req *shared.GenerateRequest) error {
	var texts []string
	switch {
	case len(v) == 0 || string(v) == "null":
		return badRequest("missing_parameter", "prompt", "prompt is missing")
	case v.Kind() == '"':
		return decodeJSON(v, &req.Prompt)
	case decodeJSON(v, &req.PromptTokens) == nil && len(req.PromptTokens) > 0:
		return nil
	case decodeJSON(v, &texts) == nil && len(texts) == 1:
		req.PromptTokens, req.Prompt = nil, texts[0]
		return nil
	default:
		return badRequest("invalid_type", "prompt", "prompt must be one text or one list of token ids")
	}
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	s.complete(w, r, &completionRequest{}, textShape{})
}

// generateBody is the body of either endpoint that generates.
type generateBody interface {
	toShared() (shared.GenerateRequest, error)
	choices() (int, error)
	streamed() bool
	usage() bool
}

// complete reads a body and answers it.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, body generateBody, sh shape) {
	if err := decodeBody(w, r, body); err != nil {
		writeError(w, err)
		return
	}
	req, err := body.toShared()
	if err != nil {
		writeError(w, err)
		return
	}
	n, err := body.choices()
	if err != nil {
		writeError(w, err)
		return
	}
	s.answer(w, r, req, answerOptions{shape: sh, choices: n, stream: body.streamed(), usage: body.usage()})
}
