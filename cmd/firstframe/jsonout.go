package main

import (
	"github.com/firstframe/firstframe/internal/bench"
	"github.com/firstframe/firstframe/shared"
)

type identityJSON struct {
	ModelRevision     string `json:"model_revision"`
	Precision         string `json:"precision"`
	TokenizerRevision string `json:"tokenizer_revision"`
	LayoutRevision    string `json:"layout_revision"`
	SlotRevision      string `json:"slot_revision"`
}

type usageJSON struct {
	PromptTokens     int `json:"prompt_tokens"`
	CachedTokens     int `json:"cached_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	ReasoningTokens  int `json:"reasoning_tokens,omitempty"`
}

// timingsJSON has llama-server's field names, with the phases beside them.
type timingsJSON struct {
	CacheN       int                `json:"cache_n"`
	PromptN      int                `json:"prompt_n"`
	PromptMS     float64            `json:"prompt_ms"`
	PredictedN   int                `json:"predicted_n"`
	PredictedMS  float64            `json:"predicted_ms"`
	PhaseMS      map[string]float64 `json:"phase_ms"`
	ActivationMS *bench.Activation  `json:"activation_ms,omitempty"`
}

type resultJSON struct {
	Type           string        `json:"type,omitempty"` // only in a stream of events
	Text           *string       `json:"text,omitempty"`
	Reasoning      string        `json:"reasoning,omitempty"`
	Logprobs       []logprobJSON `json:"logprobs,omitempty"`
	FinishReason   string        `json:"finish_reason"`
	SlotID         string        `json:"slot_id"`
	Model          string        `json:"model"`
	Identity       identityJSON  `json:"identity"`
	SlotHit        bool          `json:"slot_hit"`
	Usage          usageJSON     `json:"usage"`
	Timings        timingsJSON   `json:"timings"`
	FirstChunkMS   float64       `json:"first_chunk_ms"`
	FullResponseMS float64       `json:"full_response_ms"`
	// Why tokens after the cached ones were computed, and where the prompt leaves
	// the nearest known one.
	MissReason      string `json:"miss_reason,omitempty"`
	DivergedAtToken int    `json:"diverged_at_token,omitempty"`
}

func toResultJSON(m shared.Measured) resultJSON {
	r := resultJSON{
		FinishReason: m.FinishReason, SlotID: m.SlotID, Model: m.Model, Identity: identityJSON(m.Identity),
		SlotHit: m.SlotHit, Usage: usageJSON(m.Usage),
		Timings: timingsJSON{
			CacheN: m.Usage.CachedTokens, PromptN: m.Usage.PromptTokens - m.Usage.CachedTokens,
			PromptMS: shared.Milliseconds(m.Prompt), PredictedN: m.Usage.CompletionTokens,
			PredictedMS: shared.Milliseconds(m.Predicted), PhaseMS: m.Phases.MS(),
			ActivationMS: bench.ActivationOf(m.Activation),
		},
		FirstChunkMS: shared.Milliseconds(m.FirstChunk), FullResponseMS: shared.Milliseconds(m.FullResponse),
		MissReason: m.MissReason, DivergedAtToken: m.DivergedAtToken,
	}
	return r
}

// toActivationJSON is nil for a request that found its slot resident.
type candidateJSON struct {
	SlotID   string       `json:"slot_id"`
	Model    string       `json:"model"`
	Identity identityJSON `json:"identity"`
}

type errorJSON struct {
	Kind         string          `json:"kind"`
	Op           string          `json:"op,omitempty"`
	SlotID       string          `json:"slot_id,omitempty"`
	Message      string          `json:"message"`
	Field        string          `json:"field,omitempty"`
	Candidates   []candidateJSON `json:"candidates,omitempty"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	LogTail      []string        `json:"log_tail,omitempty"`
}

// failure is the one document or the last event of a request that failed.
type failure struct {
	Type  string     `json:"type,omitempty"`
	Error *errorJSON `json:"error,omitempty"`
	// Instead of an error, when the slot is being prepared:
	Status       string `json:"status,omitempty"`
	SlotID       string `json:"slot_id,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

func toFailure(err error, event bool) failure {
	e := shared.AsError(err, "", "")
	if e.Kind == shared.KindPending {
		return failure{Status: "pending", SlotID: e.SlotID, RetryAfterMS: e.RetryAfter.Milliseconds()}
	}
	f := failure{Error: &errorJSON{
		Kind: e.Kind.String(), Op: e.Op, SlotID: e.SlotID, Message: e.Text(), Field: e.Field,
		RetryAfterMS: e.RetryAfter.Milliseconds(), LogTail: e.LogTail,
	}}
	for _, c := range e.Candidates {
		f.Error.Candidates = append(f.Error.Candidates, candidateJSON{c.SlotID, c.Model, identityJSON(c.Identity)})
	}
	switch {
	case event && e.Kind == shared.KindCancelled:
		f.Type = "cancelled"
	case event:
		f.Type = "error"
	}
	return f
}

// slotJSON is one slot in the documents of slots, prepare, evict and restart.
type slotJSON struct {
	SlotID            string        `json:"slot_id"`
	Model             string        `json:"model"`
	ModelPath         string        `json:"model_path"`
	ModelRevision     string        `json:"model_revision"`
	Precision         string        `json:"precision"`
	LayoutRevision    string        `json:"layout_revision"`
	TokenizerRevision string        `json:"tokenizer_revision"`
	SlotRevision      string        `json:"slot_revision"`
	Adapters          []adapterJSON `json:"adapters,omitempty"`
	Status            string        `json:"status"`
	Process           string        `json:"process"`
	PID               int           `json:"pid"`
	Restarts          int           `json:"restarts"`
	HostBufferID      string        `json:"host_buffer_id"`
	DeviceBufferID    string        `json:"device_buffer_id"`
	LastError         string        `json:"last_error"`
	Device            string        `json:"device"`
	Transfer          string        `json:"transfer"`
	Pinned            bool          `json:"pinned"`
	PinNote           string        `json:"pin_note"`
	// Of slots on GPUs: what the device is, why the transfer was chosen, and what the
	// choice was measured by.
	DeviceInfo     *deviceJSON        `json:"device_info,omitempty"`
	TransferReason string             `json:"transfer_reason,omitempty"`
	TransferProbe  *transferProbeJSON `json:"transfer_probe,omitempty"`
	HostBytes      int64              `json:"host_bytes"`
	DeviceBytes    int64              `json:"device_bytes"`
	ContextTokens  int                `json:"context_tokens"`
	Parallel       int                `json:"parallel"`
	InFlight       int                `json:"in_flight"`
	OnMiss         string             `json:"on_miss"`
	// Exit is how the last process that ended by itself did so.
	Exit string `json:"exit"`
	// RetryAfterMS is when the next process is started, 0 when none will be.
	RetryAfterMS int64  `json:"retry_after_ms"`
	Pin          bool   `json:"pin"`
	ReplicaOf    string `json:"replica_of,omitempty"`
	// What the slot holds of the budgets, 0 without any.
	HostHeld   int64 `json:"host_held"`
	DeviceHeld int64 `json:"device_held"`
	// ResidentBytes is the memory that the system counts for the process.
	ResidentBytes int64 `json:"resident_bytes"`
	// Progress is null when nothing is being prepared.
	SequencesRunning int       `json:"sequences_running"`
	SequencesWaiting int       `json:"sequences_waiting"`
	KVTokensUsed     int64     `json:"kv_tokens_used"`
	KVTokensTotal    int64     `json:"kv_tokens_total"`
	Pages            pagesJSON `json:"pages"`

	Progress *progressJSON `json:"progress"`
	LogTail  []string      `json:"log_tail"`
}

// deviceJSON is a device apart from the CPU.
type deviceJSON struct {
	Name       string `json:"name"`
	Model      string `json:"model"`
	Capability string `json:"capability"`
	UUID       string `json:"uuid"`
	Driver     string `json:"driver"`
	Memory     int64  `json:"memory"`
}

// transferProbeJSON is what copies to a device were measured to cost, in bytes a second.
type transferProbeJSON struct {
	Points            []probePointJSON `json:"points"`
	PinBytesPerSecond float64          `json:"pin_bytes_per_second"`
	PinNote           string           `json:"pin_note,omitempty"`
}

type probePointJSON struct {
	Bytes    int64   `json:"bytes"`
	Pageable float64 `json:"pageable"`
	Pinned   float64 `json:"pinned"`
}

// adapterJSON is a LoRA adapter of a slot.
type adapterJSON struct {
	Path string `json:"path"`
	// Revision is empty until the file has been hashed.
	Revision string  `json:"revision"`
	Scale    float32 `json:"scale"`
}

// oneSlotJSON is the answer of prepare, evict and restart.
type oneSlotJSON struct {
	Slot slotJSON `json:"slot"`
}

type progressJSON struct {
	Stage      string `json:"stage"`
	DoneBytes  int64  `json:"done_bytes"`
	TotalBytes int64  `json:"total_bytes"`
}

func toSlotJSON(s shared.SlotInfo) slotJSON {
	doc := slotJSON{
		SlotID: s.SlotID, Model: s.Model, ModelPath: s.ModelPath, ModelRevision: s.Identity.ModelRevision,
		Precision: s.Identity.Precision, LayoutRevision: s.Identity.LayoutRevision,
		TokenizerRevision: s.Identity.TokenizerRevision, SlotRevision: s.Identity.SlotRevision,
		Status: string(s.Status), Process: string(s.Process), PID: s.PID, Restarts: s.Restarts,
		HostBufferID: s.HostBufferID, DeviceBufferID: s.DeviceBufferID, LastError: s.LastError,
		Device: s.Device, Transfer: string(s.Transfer), Pinned: s.Pinned, PinNote: s.PinNote,
		HostBytes: s.HostBytes, DeviceBytes: s.DeviceBytes, ContextTokens: s.ContextTokens,
		Parallel: s.Parallel, InFlight: s.InFlight, OnMiss: string(s.OnMiss), LogTail: s.LogTail,
		SequencesRunning: s.Load.SequencesRunning, SequencesWaiting: s.Load.SequencesWaiting,
		KVTokensUsed: s.Load.KVTokensUsed, KVTokensTotal: s.Load.KVTokensTotal,
		Pages: toPagesJSON(s.Load.Pages),
		Exit:  s.Exit, RetryAfterMS: s.RetryAfter.Milliseconds(), Pin: s.Pin, ReplicaOf: s.ReplicaOf,
		HostHeld: s.HostHeld, DeviceHeld: s.DeviceHeld, ResidentBytes: s.ResidentBytes,
	}
	if s.DeviceInfo != (shared.DeviceInfo{}) {
		d := deviceJSON(s.DeviceInfo)
		doc.DeviceInfo = &d
	}
	doc.TransferReason = s.TransferReason
	if p := s.Probe; len(p.Points) > 0 {
		doc.TransferProbe = &transferProbeJSON{PinBytesPerSecond: p.PinBytesPerSecond, PinNote: p.PinNote}
		for _, at := range p.Points {
			doc.TransferProbe.Points = append(doc.TransferProbe.Points, probePointJSON(at))
		}
	}
	for _, a := range s.Adapters {
		doc.Adapters = append(doc.Adapters, adapterJSON(a))
	}
	if s.Progress != (shared.Progress{}) {
		p := progressJSON(s.Progress)
		doc.Progress = &p
	}
	if doc.LogTail == nil {
		doc.LogTail = []string{}
	}
	return doc
}
