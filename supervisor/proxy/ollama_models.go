package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// ollamaModelJSON is a model in the lists of Ollama's clients.
type ollamaModelJSON struct {
	Name       string        `json:"name"`
	Model      string        `json:"model"`
	ModifiedAt time.Time     `json:"modified_at,omitzero"`
	Size       int64         `json:"size"`
	Digest     string        `json:"digest"`
	Details    ollamaDetails `json:"details"`
	// These are told of models in memory only.
	ExpiresAt     time.Time `json:"expires_at,omitzero"`
	SizeVRAM      *int64    `json:"size_vram,omitzero"`
	ContextLength int       `json:"context_length,omitzero"`
}

type ollamaDetails struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
}

type ollamaModelList struct {
	Models []ollamaModelJSON `json:"models"`
}

func toOllamaModel(name string, s shared.SlotInfo) ollamaModelJSON {
	if !strings.Contains(name, ":") {
		name += ":latest" // as their clients expect every name to have a tag
	}
	m := ollamaModelJSON{
		Name: name, Model: name, Size: s.File.Bytes, Digest: strings.TrimPrefix(s.Identity.ModelRevision, "sha256:"), Details: toOllamaDetails(s),
	}
	if ns := s.File.ModifiedUnixNS; ns != 0 {
		m.ModifiedAt = time.Unix(0, ns).UTC()
	}
	return m
}

func toOllamaDetails(s shared.SlotInfo) ollamaDetails {
	d := ollamaDetails{
		Format: "gguf", Family: s.File.Architecture, Families: []string{}, ParameterSize: parameterSize(s.File.Parameters),
		QuantizationLevel: s.Identity.Precision,
	}
	if d.Family != "" {
		d.Families = []string{d.Family}
	}
	return d
}

// parameterSize writes a number of weights as people do, such as 7.6B.
func parameterSize(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.2fK", float64(n)/1e3)
	}
}

// ollamaTags lists the names that mean exactly one identity.
func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) {
	s.ollamaList(w, r, func(name string, slot shared.SlotInfo) (ollamaModelJSON, bool) {
		return toOllamaModel(name, slot), true
	})
}

// ollamaRunning lists what is in memory: each model once, under its shortest name.
func (s *Server) ollamaRunning(w http.ResponseWriter, r *http.Request) {
	seen := map[shared.Identity]bool{}
	s.ollamaList(w, r, func(name string, slot shared.SlotInfo) (ollamaModelJSON, bool) {
		own := name == slot.Model || name == modelID(slot.Model, slot.Identity)
		if !slot.Status.Ready() || !own || seen[slot.Identity] {
			return ollamaModelJSON{}, false
		}
		seen[slot.Identity] = true
		m := toOllamaModel(name, slot)
		var vram int64
		if slot.Device != "cpu" {
			vram = slot.DeviceBytes
		}
		m.Size, m.SizeVRAM, m.ExpiresAt, m.ContextLength = slot.HostBytes+slot.DeviceBytes, &vram, forever(), contextOf(slot)
		return m, true
	})
}

// ollamaList answers with the names of which there is something to tell.
func (s *Server) ollamaList(w http.ResponseWriter, r *http.Request, tell func(string, shared.SlotInfo) (ollamaModelJSON, bool)) {
	list, err := s.frontend.ListSlots(r.Context())
	if err != nil {
		writeOllamaError(w, err)
		return
	}
	out := ollamaModelList{Models: []ollamaModelJSON{}}
	for _, m := range routable(list) {
		if entry, ok := tell(m.ID, bestSlot(list, m.SlotIDs)); ok {
			out.Models = append(out.Models, entry)
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// bestSlot is one of the slots that a name means, if possible one that is resident.
func bestSlot(list shared.SlotList, ids []string) shared.SlotInfo {
	var best shared.SlotInfo
	for _, s := range list.Slots {
		for _, id := range ids {
			if s.SlotID == id && (best.SlotID == "" || !best.Status.Ready() && s.Status.Ready()) {
				best = s
			}
		}
	}
	return best
}

// ollamaShowRequest is the body of /api/show.
type ollamaShowRequest struct {
	Model string `json:"model"`
	Name  string `json:"name"` // as older clients call it
	// These change what Ollama's own model files would say.
	Verbose  bool           `json:"verbose"`
	System   string         `json:"system"`
	Template string         `json:"template"`
	Options  jsontext.Value `json:"options"`
}

func (b *ollamaShowRequest) requirement() (shared.Requirement, error) {
	if b.Model == "" {
		b.Model = b.Name
	}
	if b.Model == "" {
		return shared.Requirement{}, badRequest("missing_parameter", "model", "model is missing")
	}
	return parseModel(ollamaModel(b.Model)), nil
}

type ollamaShowJSON struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      ollamaDetails  `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	ModifiedAt   time.Time      `json:"modified_at,omitzero"`
}

func (s *Server) ollamaShow(w http.ResponseWriter, r *http.Request) {
	var body ollamaShowRequest
	err := decodeAnyType(w, r, &body)
	if err != nil {
		writeOllamaError(w, err)
		return
	}
	asked, err := body.requirement()
	if err != nil {
		writeOllamaError(w, err)
		return
	}
	slots, err := slotsOf(r.Context(), s.frontend, asked)
	if err != nil {
		writeOllamaError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, toOllamaShow(slots[0]))
}

// toOllamaShow tells what clients decide by. The context length is what the slot
// gives, not what the model was made for: clients ask for as much as they read here.
func toOllamaShow(s shared.SlotInfo) ollamaShowJSON {
	m := toOllamaModel(s.Model, s)
	arch := s.File.Architecture
	out := ollamaShowJSON{
		Parameters: fmt.Sprintf("num_ctx %d", contextOf(s)), Details: m.Details, ModifiedAt: m.ModifiedAt, Capabilities: []string{"completion"},
		ModelInfo: map[string]any{
			"general.architecture":     arch,
			"general.parameter_count":  s.File.Parameters,
			arch + ".context_length":   contextOf(s),
			arch + ".embedding_length": s.File.EmbeddingLength,
		},
	}
	if s.File.Tools {
		out.Capabilities = append(out.Capabilities, "tools")
	}
	if s.File.Thinking {
		out.Capabilities = append(out.Capabilities, "thinking")
	}
	return out
}

// ollamaVersionNumber is the release of Ollama whose API these endpoints have:
// clients tell from it what they may use.
const ollamaVersionNumber = "0.17.4"

type ollamaVersionJSON struct {
	Version string `json:"version"`
	Server  string `json:"server"`
}

func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, ollamaVersionJSON{Version: ollamaVersionNumber, Server: "firstframe " + s.cfg.Version})
}

// forever is until when a model is said to stay: that is up to its slot.
func forever() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }
