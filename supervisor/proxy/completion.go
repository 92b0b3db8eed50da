package proxy

import (
	"net/http"
	"time"

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
	if string(r.BestOf) == "1" {
		r.BestOf = nil // what is asked for anyway
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
	if err := constrain(&req, r.Grammar, ""); err != nil {
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
	case string(v) == `""` || string(v) == `[""]` || string(v) == "[]":
		return badRequest("invalid_value", "prompt", "prompt is empty")
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
	s.complete(w, r, &completionRequest{})
}

func (r *completionRequest) operation() string { return "text_completion" }

func (r *completionRequest) form(h answerHead) form { return newChoicesForm(textShape{}, h, r.usage()) }

// generateBody is the body of any endpoint that generates.
type generateBody interface {
	toShared() (shared.GenerateRequest, error)
	choices() (int, error)
	streamed() bool
	// operation is the endpoint's name in traces.
	operation() string
	// form is how it wants its answer.
	form(answerHead) form
}

// complete reads a body and answers it.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, body generateBody) {
	arrived := time.Now()
	req, opt, err := readGenerate(w, r, body)
	var out outcome
	if err != nil {
		out = outcome{err: err, status: refuse(w, r, err)}
	} else {
		out = s.answer(w, r, req, opt)
	}
	s.traces.finish(r, spanInfo{
		outcome: out, operation: body.operation(), arrived: arrived, asked: req.Requirement,
		maxTokens: req.MaxTokens, choices: opt.choices, stream: opt.stream,
	})
}

func readGenerate(w http.ResponseWriter, r *http.Request, body generateBody) (shared.GenerateRequest, answerOptions, error) {
	opt := answerOptions{form: body.form}
	if err := decodeBody(w, r, body); err != nil {
		return shared.GenerateRequest{}, opt, err
	}
	req, err := body.toShared()
	if err != nil {
		return req, opt, err
	}
	opt.stream = body.streamed()
	opt.choices, err = body.choices()
	return req, opt, err
}
