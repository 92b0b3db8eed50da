package bench

import (
	"github.com/firstframe/firstframe/shared"
)

// Name is what every document says it measures.
const Name = "first-frame-runtime-path"

// Document is everything that one run of the benchmark has to say.
type Document struct {
	Benchmark   string       `json:"benchmark"`
	Environment *Environment `json:"environment,omitempty"`
	Settings    *Settings    `json:"settings,omitempty"`
	Runs        []Run        `json:"runs"`
	Summary     []Case       `json:"summary,omitempty"`
	Loads       []Load       `json:"loads,omitempty"`
	Curves      []Curve      `json:"curves,omitempty"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Peers       []PeerInfo   `json:"peers,omitempty"`
}

// Environment is where the figures come from.
type Environment struct {
	Time     string `json:"time"`
	Version  string `json:"version"` // of firstframe
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	MemoryMB int64  `json:"memory_mb"`
	// LoadAverage is that of the minute before the first run: what else the
	// machine was doing.
	LoadAverage string `json:"load_average,omitempty"`
	Engine      string `json:"engine"`
	// CPUVariant is the engine's build for this processor, as the worker loaded it.
	CPUVariant string `json:"cpu_variant,omitempty"`
	Go         string `json:"go"`
}

// Settings is what was asked for.
type Settings struct {
	Model     string `json:"model"`
	Precision string `json:"precision,omitempty"`
	Runs      int    `json:"runs"`
	WarmUp    int    `json:"warm_up"`
	MaxTokens int    `json:"max_tokens"`
	Seed      uint64 `json:"seed"`
	Threads   int    `json:"threads,omitempty"`
	Parallel  int    `json:"parallel,omitempty"`
	Context   int    `json:"context_tokens,omitempty"`
}

// Run is one measured request.
type Run struct {
	Case           string             `json:"case"`
	SlotID         string             `json:"slot_id"`
	Precision      string             `json:"precision"`
	SlotHit        bool               `json:"slot_hit"`
	ContextPageHit bool               `json:"context_page_hit"`
	PhaseMS        map[string]float64 `json:"phase_ms"`
	ActivationMS   *Activation        `json:"activation_ms,omitempty"`
	FirstChunkMS   float64            `json:"first_chunk_ms"`
	FullResponseMS float64            `json:"full_response_ms"`
}

// Activation is what bringing a slot up took, part by part, in milliseconds.
type Activation struct {
	Spawn    float64 `json:"spawn"`
	Prefetch float64 `json:"prefetch"`
	Transfer float64 `json:"transfer"`
	Warmup   float64 `json:"warmup"`
	Canary   float64 `json:"canary"`
}

// Curve is a cost over a quantity that grows.
type Curve struct {
	Case   string  `json:"case"`
	X      string  `json:"x"`    // what grows
	Unit   string  `json:"unit"` // of the values
	Points []Point `json:"points"`
}

// Point is one place on a curve.
type Point struct {
	X     float64 `json:"x"`
	Value Spread  `json:"value"`
}

// RunOf is a measured request as a document has it.
func RunOf(name string, m shared.Measured) Run {
	return Run{
		Case: name, SlotID: m.SlotID, Precision: m.Identity.Precision, SlotHit: m.SlotHit,
		ContextPageHit: m.Usage.CachedTokens > 0, PhaseMS: m.Phases.MS(), ActivationMS: ActivationOf(m.Activation),
		FirstChunkMS: shared.Milliseconds(m.FirstChunk), FullResponseMS: shared.Milliseconds(m.FullResponse),
	}
}

// ActivationOf is nil for a request that found its slot ready.
func ActivationOf(d shared.ActivationDetail) *Activation {
	if d == (shared.ActivationDetail{}) {
		return nil
	}
	return &Activation{
		Spawn: shared.Milliseconds(d.Spawn), Prefetch: shared.Milliseconds(d.Prefetch), Transfer: shared.Milliseconds(d.Transfer),
		Warmup: shared.Milliseconds(d.Warmup), Canary: shared.Milliseconds(d.Canary),
	}
}
