package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// fakePeer is a server that answers as one of those that are recognised. It
// says in asked what it was asked, in order.
type fakePeer struct {
	*httptest.Server
	kind Kind
	// answer replaces the usual stream of a chat.
	answer http.HandlerFunc
	// stays is the status of a model that was not evicted.
	stays string

	mu     sync.Mutex
	asked  []string
	loaded bool
}

func newFakePeer(t *testing.T, kind Kind) *fakePeer {
	t.Helper()
	f := &fakePeer{kind: kind, loaded: true}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kind == LlamaServer || f.kind == LlamaRouter {
		w.Header().Set("Server", "llama.cpp")
	}
	switch at := r.Method + " " + r.URL.Path; {
	case at == "GET /v1/models" || at == "GET /models":
		f.models(w)
	case at == "POST /v1/chat/completions":
		f.chat(w, r)
	case at == "GET /props" && (f.kind == LlamaServer || f.kind == LlamaRouter):
		fmt.Fprint(w, `{"build_info":"b1-test"}`)
	case at == "GET /running" && f.kind == LlamaSwap:
		fmt.Fprint(w, map[bool]string{true: `{"running":[{"model":"story-q4"}]}`, false: `{"running":[]}`}[f.loaded])
	case at == "GET /api/version" && f.kind == Ollama:
		fmt.Fprint(w, `{"version":"0.9.1"}`)
	case at == "GET /api/ps" && f.kind == Ollama:
		fmt.Fprint(w, map[bool]string{true: `{"models":[{"model":"story-q4"}]}`, false: `{"models":[]}`}[f.loaded])
	case at == "POST /models/unload" && f.kind == LlamaRouter, at == "POST /api/models/unload" && f.kind == LlamaSwap:
		f.note("unload")
		f.loaded = false
	case at == "POST /models/load" && f.kind == LlamaRouter:
		f.note("load")
		f.loaded = true
	case at == "POST /api/generate" && f.kind == Ollama:
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		_, f.loaded = body["keep_alive"]
		f.loaded = !f.loaded
		f.note(map[bool]string{true: "load", false: "unload"}[f.loaded])
	case r.URL.Path == "/api/slots/evict" || r.URL.Path == "/api/slots/restart" || r.URL.Path == "/api/slots/prepare":
		f.note(r.URL.Path[len("/api/slots/"):])
	case at == "POST /tokenize":
		fmt.Fprint(w, `{"tokens":[1,2,3]}`)
	default:
		http.NotFound(w, r)
	}
}

func (f *fakePeer) note(what string) { f.asked = append(f.asked, what) }

func (f *fakePeer) models(w http.ResponseWriter) {
	m := map[string]any{"id": "story-q4"}
	switch f.kind {
	case Firstframe:
		m["owned_by"], m["slot_ids"] = "firstframe", []string{"story"}
		m["status"] = f.stays
	case LlamaRouter:
		m["status"] = map[string]string{"value": map[bool]string{true: "loaded", false: "unloaded"}[f.loaded]}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{m, map[string]any{"id": "tale-q8"}}})
}

func (f *fakePeer) chat(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model     string `json:"model"`
		IgnoreEOS bool   `json:"ignore_eos"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.note("ask " + body.Model)
	f.loaded = true
	if f.answer != nil {
		f.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		`{"choices":[{"delta":{"role":"assistant","content":null}}]}`,
		`{"choices":[{"delta":{"content":"Once"}}]}`, `{"choices":[{"delta":{"content":" upon"}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}},"timings":{"prompt_ms":0.001,"cache_n":8}}`,
		`[DONE]`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

// recognised is a fake peer as it is found, with its first model chosen.
func recognised(t *testing.T, kind Kind) (*fakePeer, *Peer) {
	t.Helper()
	f := newFakePeer(t, kind)
	p, err := Recognise(t.Context(), f.URL+"/v1/", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Choose("story-q4", ""); err != nil {
		t.Fatal(err)
	}
	return f, p
}
