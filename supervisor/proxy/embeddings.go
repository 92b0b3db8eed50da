package proxy

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// embeddingsRequest is the body of /v1/embeddings.
type embeddingsRequest struct {
	Model          string         `json:"model"`
	Input          jsontext.Value `json:"input"`
	EncodingFormat string         `json:"encoding_format"`
	User           string         `json:"user"`

	Dimensions jsontext.Value `json:"dimensions"`
}

func (r *embeddingsRequest) toShared() (shared.EmbedRequest, error) {
	if r.Model == "" {
		return shared.EmbedRequest{}, badRequest("missing_parameter", "model", "model is missing")
	}
	if err := unsupported(map[string]jsontext.Value{"dimensions": r.Dimensions}, "dimensions"); err != nil {
		return shared.EmbedRequest{}, err
	}
	switch r.EncodingFormat {
	case "", "float", "base64":
	default:
		return shared.EmbedRequest{}, badRequest("invalid_value", "encoding_format", "encoding_format is float or base64")
	}
	inputs, err := readInputs(r.Input)
	if err != nil {
		return shared.EmbedRequest{}, err
	}
	return shared.EmbedRequest{Requirement: parseModel(r.Model), Inputs: inputs}, nil
}

// readInputs takes a text, a list of texts, a list of token ids, or a list of
// such lists.
func readInputs(v jsontext.Value) ([]shared.EmbedInput, error) {
	var text string
	var texts []string
	var tokens []int32
	var lists [][]int32
	var inputs []shared.EmbedInput
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return nil, badRequest("missing_parameter", "input", "input is missing")
	case v.Kind() == '"' && decodeJSON(v, &text) == nil:
		inputs = []shared.EmbedInput{{Text: text}}
	case decodeJSON(v, &texts) == nil:
		for _, t := range texts {
			inputs = append(inputs, shared.EmbedInput{Text: t})
		}
	case decodeJSON(v, &tokens) == nil:
		inputs = []shared.EmbedInput{{Tokens: tokens}}
	case decodeJSON(v, &lists) == nil:
		for _, l := range lists {
			inputs = append(inputs, shared.EmbedInput{Tokens: l})
		}
	default:
		return nil, badRequest("invalid_type", "input", "input is a text, a list of texts, a list of token ids or a list of such lists")
	}
	if len(inputs) == 0 || len(inputs) > shared.MaxEmbedInputs {
		return nil, badRequest("invalid_value", "input", "input has to have 1 to %d texts", shared.MaxEmbedInputs)
	}
	for i, in := range inputs {
		if in.Text == "" && len(in.Tokens) == 0 {
			return nil, badRequest("invalid_value", "input", "text %d of input is empty", i)
		}
	}
	return inputs, nil
}

type embeddingList struct {
	Object            string          `json:"object"`
	Data              []embeddingJSON `json:"data"`
	Model             string          `json:"model"`
	SystemFingerprint string          `json:"system_fingerprint"`
	Usage             embeddingUsage  `json:"usage"`
	SlotID            string          `json:"slot_id"`
	Pooling           string          `json:"pooling"`
}

type embeddingJSON struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

type embeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	var body embeddingsRequest
	res, err := s.embed(w, r, &body)
	out := outcome{err: err, status: http.StatusOK}
	if err != nil {
		out.status = writeError(w, err)
	} else {
		writeJSON(w, http.StatusOK, toEmbeddingList(res, body.EncodingFormat == "base64"))
	}
	s.traces.finish(r, spanInfo{
		outcome: out, operation: "embeddings", arrived: arrived, asked: parseModel(body.Model), embedded: res,
	})
}

func (s *Server) embed(w http.ResponseWriter, r *http.Request, body *embeddingsRequest) (shared.EmbedResult, error) {
	if err := decodeBody(w, r, body); err != nil {
		return shared.EmbedResult{}, err
	}
	req, err := body.toShared()
	if err != nil {
		return shared.EmbedResult{}, err
	}
	return s.vectors(r, req)
}

// vectors runs one parsed request.
func (s *Server) vectors(r *http.Request, req shared.EmbedRequest) (shared.EmbedResult, error) {
	release, err := s.takePlace()
	if err != nil {
		return shared.EmbedResult{}, err
	}
	defer release()
	if prefersAsync(r) {
		req.OnMiss = shared.OnMissPending
	}
	return s.frontend.Embed(r.Context(), req)
}

func toEmbeddingList(res shared.EmbedResult, base64 bool) embeddingList {
	list := embeddingList{
		Object: "list", Data: make([]embeddingJSON, len(res.Vectors)),
		Model: modelID(res.Model, res.Identity), SystemFingerprint: fingerprint(res.Identity),
		Usage:  embeddingUsage{PromptTokens: res.PromptTokens, TotalTokens: res.PromptTokens},
		SlotID: res.SlotID, Pooling: res.Pooling,
	}
	for i, v := range res.Vectors {
		list.Data[i] = embeddingJSON{Object: "embedding", Index: i, Embedding: v}
		if base64 {
			list.Data[i].Embedding = littleEndian(v)
		}
	}
	return list
}

// littleEndian is a vector as OpenAI's clients unpack it.
func littleEndian(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
