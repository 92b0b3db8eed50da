package proxy

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// ollamaEmbedRequest is the body of /api/embed.
type ollamaEmbedRequest struct {
	Model      string         `json:"model"`
	Input      jsontext.Value `json:"input"`
	Dimensions int            `json:"dimensions"`
	// A text that is too long is an error, whatever this says.
	Truncate  *bool          `json:"truncate"`
	KeepAlive jsontext.Value `json:"keep_alive"`
	Options   *ollamaOptions `json:"options"`
}

// ollamaEmbeddingRequest is the body of /api/embeddings, which takes one text.
type ollamaEmbeddingRequest struct {
	Model     string         `json:"model"`
	Prompt    jsontext.Value `json:"prompt"`
	KeepAlive jsontext.Value `json:"keep_alive"`
	Options   *ollamaOptions `json:"options"`
}

type ollamaEmbedJSON struct {
	Model           string      `json:"model"`
	Embeddings      [][]float32 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration"`
	PromptEvalCount int         `json:"prompt_eval_count"`
}

type ollamaEmbeddingJSON struct {
	Embedding []float32 `json:"embedding"`
}

func (r *ollamaEmbedRequest) toShared() (shared.EmbedRequest, error) {
	if r.Dimensions != 0 {
		return shared.EmbedRequest{}, badRequest("unsupported_parameter", "dimensions", "dimensions is not supported by this version")
	}
	if _, err := unloads(r.KeepAlive); err != nil {
		return shared.EmbedRequest{}, err
	}
	return (&embeddingsRequest{Model: ollamaModel(r.Model), Input: r.Input}).toShared()
}

func (s *Server) ollamaEmbed(w http.ResponseWriter, r *http.Request) {
	var body ollamaEmbedRequest
	err := decodeAnyType(w, r, &body)
	s.ollamaVectors(w, r, body, err, func(res shared.EmbedResult, took time.Duration) any {
		return ollamaEmbedJSON{Model: body.Model, Embeddings: res.Vectors, TotalDuration: took.Nanoseconds(), PromptEvalCount: res.PromptTokens}
	})
}

func (s *Server) ollamaEmbedding(w http.ResponseWriter, r *http.Request) {
	var body ollamaEmbeddingRequest
	err := decodeAnyType(w, r, &body)
	if err == nil && body.Prompt.Kind() != '"' {
		err = badRequest("invalid_type", "prompt", "prompt is a text")
	}
	s.ollamaVectors(w, r, ollamaEmbedRequest{Model: body.Model, Input: body.Prompt, KeepAlive: body.KeepAlive}, err,
		func(res shared.EmbedResult, _ time.Duration) any { return ollamaEmbeddingJSON{res.Vectors[0]} })
}

// ollamaVectors computes the vectors of a request that was decoded, unless that failed.
func (s *Server) ollamaVectors(w http.ResponseWriter, r *http.Request, body ollamaEmbedRequest, err error, form func(shared.EmbedResult, time.Duration) any) {
	arrived := time.Now()
	var res shared.EmbedResult
	var req shared.EmbedRequest
	if err == nil {
		req, err = body.toShared()
	}
	if err == nil {
		res, err = s.vectors(r, req)
	}
	out := outcome{err: err, status: http.StatusOK}
	if err != nil {
		out.status = writeOllamaError(w, err)
	} else {
		writeJSON(w, http.StatusOK, form(res, time.Since(arrived)))
	}
	s.traces.finish(r, spanInfo{
		outcome: out, operation: "embeddings", arrived: arrived, asked: parseModel(ollamaModel(body.Model)), embedded: res,
	})
}
