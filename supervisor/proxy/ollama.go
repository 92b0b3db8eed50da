package proxy

import (
	"net/http"
	"slices"
	"time"
)

// ollama adds the endpoints of Ollama's clients.
func (s *Server) ollama(root *http.ServeMux) {
	keys := s.cfg.APIKeys
	if len(keys) > 0 {
		// Unloading takes an admin key, and a request has room for one key.
		keys = slices.Concat(keys, s.cfg.AdminKeys)
	}
	add := func(method, path string, h http.HandlerFunc) {
		root.Handle(method+" "+path, s.withKey(keys, h))
		root.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			refuse(w, r, &httpError{status: http.StatusMethodNotAllowed, code: "method_not_allowed", message: path + " takes " + method})
		})
	}
	add(http.MethodPost, "/api/chat", func(w http.ResponseWriter, r *http.Request) { s.ollamaComplete(w, r, &ollamaChatRequest{}, "chat") })
	add(http.MethodPost, "/api/generate", func(w http.ResponseWriter, r *http.Request) {
		s.ollamaComplete(w, r, &ollamaGenerateRequest{}, "text_completion")
	})
	add(http.MethodPost, "/api/embed", s.ollamaEmbed)
	add(http.MethodPost, "/api/embeddings", s.ollamaEmbedding)
	add(http.MethodPost, "/api/show", s.ollamaShow)
	add(http.MethodGet, "/api/tags", s.ollamaTags)
	add(http.MethodGet, "/api/ps", s.ollamaRunning)
	add(http.MethodGet, "/api/version", s.ollamaVersion)
	for _, path := range []string{"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs/{digest}"} {
		root.Handle(path, s.withKey(keys, http.HandlerFunc(ollamaMissing)))
	}
}

// ollamaBody is the body of either endpoint that generates.
type ollamaBody interface{ toAsk() (ollamaAsk, error) }

func (s *Server) ollamaComplete(w http.ResponseWriter, r *http.Request, body ollamaBody, operation string) {
	arrived := time.Now()
	ask, err := readOllama(w, r, body)
	var out outcome
	switch {
	case err != nil:
		out = outcome{err: err, status: writeOllamaError(w, err)}
	case ask.only:
		s.ollamaLoad(w, r, ask)
		return
	default:
		out = s.ollamaGenerate(w, r, ask)
	}
	s.traces.finish(r, spanInfo{
		outcome: out, operation: operation, arrived: arrived, asked: ask.Requirement,
		maxTokens: ask.MaxTokens, choices: 1, stream: ask.stream,
	})
}

// readOllama reads a body of whatever content type: the examples that everybody
// copies have none.
func readOllama(w http.ResponseWriter, r *http.Request, body ollamaBody) (ollamaAsk, error) {
	if err := decodeAnyType(w, r, body); err != nil {
		return ollamaAsk{}, err
	}
	return body.toAsk()
}
