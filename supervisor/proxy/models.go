package proxy

import (
	"cmp"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

type modelJSON struct {
	ID            string       `json:"id"`
	Object        string       `json:"object"`
	Created       int64        `json:"created"`
	OwnedBy       string       `json:"owned_by"`
	SlotIDs       []string     `json:"slot_ids"`
	Identity      identityJSON `json:"identity"`
	Status        string       `json:"status"`
	ContextTokens int          `json:"context_tokens"`
	// Adapters are those of the slots, without the paths of their files.
	Adapters []adapterJSON `json:"adapters,omitempty"`
}

type adapterJSON struct {
	Name     string  `json:"name"` // of the file
	Revision string  `json:"revision"`
	Scale    float32 `json:"scale"`
}

func toAdaptersJSON(list []shared.AdapterInfo) []adapterJSON {
	var out []adapterJSON
	for _, a := range list {
		out = append(out, adapterJSON{Name: filepath.Base(a.Path), Revision: a.Revision, Scale: a.Scale})
	}
	return out
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelJSON `json:"data"`
}

// routable lists the names under which exactly one identity can be asked for.
func routable(list shared.SlotList) []modelJSON {
	var models []modelJSON
	add := func(id string, s shared.SlotInfo) {
		for i := range models {
			if models[i].ID == id {
				if !slices.Contains(models[i].SlotIDs, s.SlotID) {
					models[i].SlotIDs = append(models[i].SlotIDs, s.SlotID)
				}
				return
			}
		}
		models = append(models, modelJSON{
			ID: id, Object: "model", OwnedBy: "firstframe", SlotIDs: []string{s.SlotID},
			Identity: toIdentityJSON(s.Identity), Status: string(s.Status), ContextTokens: s.ContextTokens,
			Adapters: toAdaptersJSON(s.Adapters),
		})
	}
	meant := map[string]shared.Identity{}
	ambiguous := map[string]bool{}
	for _, s := range list.Slots {
		for _, id := range []string{s.Model, modelID(s.Model, s.Identity)} {
			if seen, ok := meant[id]; ok && seen != s.Identity {
				ambiguous[id] = true
			}
			meant[id] = s.Identity
		}
	}
	for _, s := range list.Slots {
		if !s.Identity.Complete() {
			continue
		}
		for _, id := range []string{s.Model, modelID(s.Model, s.Identity)} {
			if !ambiguous[id] {
				add(id, s)
			}
		}
		// What only an adapter tells apart has no name but the slot's.
		if id := cmp.Or(s.ReplicaOf, s.SlotID); ambiguous[modelID(s.Model, s.Identity)] && !ambiguous[id] {
			add(id, s)
		}
		for alias, slot := range list.Aliases {
			if slot == s.SlotID {
				add(alias, s)
			}
		}
	}
	slices.SortFunc(models, func(a, b modelJSON) int { return strings.Compare(a.ID, b.ID) })
	return models
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	list, err := s.frontend.ListSlots(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	data := routable(list)
	if data == nil {
		data = []modelJSON{}
	}
	writeJSON(w, http.StatusOK, modelList{Object: "list", Data: data})
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	list, err := s.frontend.ListSlots(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	id := r.PathValue("id")
	for _, m := range routable(list) {
		if m.ID == id {
			writeJSON(w, http.StatusOK, m)
			return
		}
	}
	_, err = s.frontend.Resolve(r.Context(), parseModel(id))
	if err == nil {
		err = &httpError{status: http.StatusNotFound, code: "model_not_found", param: "model",
			message: "no model has exactly this id"}
	}
	writeError(w, err)
}

type tokenizeBody struct {
	Model      string `json:"model"`
	Content    string `json:"content"`
	AddSpecial bool   `json:"add_special"`
}

type tokenizeReply struct {
	Tokens []int32 `json:"tokens"`
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var body tokenizeBody
	if err := decodeBody(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	if body.Model == "" {
		writeError(w, badRequest("missing_parameter", "model", "model is missing"))
		return
	}
	tokens, err := s.frontend.Tokenize(r.Context(), shared.TokenizeRequest{
		Requirement: parseModel(body.Model), Text: body.Content, AddSpecial: body.AddSpecial, ParseSpecial: true,
	})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, tokenizeReply{Tokens: tokens})
}

type detokenizeBody struct {
	Model  string  `json:"model"`
	Tokens []int32 `json:"tokens"`
}

type detokenizeReply struct {
	Content string `json:"content"`
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var body detokenizeBody
	if err := decodeBody(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	if body.Model == "" {
		writeError(w, badRequest("missing_parameter", "model", "model is missing"))
		return
	}
	text, err := s.frontend.Detokenize(r.Context(), shared.DetokenizeRequest{
		Requirement: parseModel(body.Model), Tokens: body.Tokens,
	})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, detokenizeReply{Content: text})
}
