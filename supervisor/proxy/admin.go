package proxy

import (
	"net/http"

	"github.com/firstframe/firstframe/shared"
)

// slotJSON is a slot as the page and the readiness check show it.
type slotJSON struct {
	SlotID        string       `json:"slot_id"`
	Model         string       `json:"model"`
	Identity      identityJSON `json:"identity"`
	Status        string       `json:"status"`
	Process       string       `json:"process"`
	PID           int          `json:"pid"`
	Restarts      int          `json:"restarts"`
	LastError     string       `json:"last_error,omitempty"`
	Device        string       `json:"device"`
	Transfer      string       `json:"transfer"`
	Pinned        bool         `json:"pinned"`
	PinNote       string       `json:"pin_note,omitempty"`
	DeviceModel   string       `json:"device_model,omitempty"`
	TransferWhy   string       `json:"transfer_reason,omitempty"`
	HostBytes     int64        `json:"host_bytes"`
	DeviceBytes   int64        `json:"device_bytes"`
	ContextTokens int          `json:"context_tokens"`
	InFlight      int          `json:"in_flight"`
	Stage         string       `json:"stage,omitempty"`
	DoneBytes     int64        `json:"done_bytes,omitempty"`
	TotalBytes    int64        `json:"total_bytes,omitempty"`
	Parallel      int          `json:"parallel"`
	Running       int          `json:"sequences_running"`
	Waiting       int          `json:"sequences_waiting"`
	KVTokensUsed  int64        `json:"kv_tokens_used"`
	KVTokensTotal int64        `json:"kv_tokens_total"`
	Pages         pagesJSON    `json:"pages"`
}

// pagesJSON is what a slot's context pages hold and did since its activation.
type pagesJSON struct {
	Off             string `json:"off,omitempty"`
	HostPages       int    `json:"host_pages"`
	HostBytes       int64  `json:"host_bytes"`
	DiskPages       int    `json:"disk_pages"`
	DiskBytes       int64  `json:"disk_bytes"`
	HitTokens       int64  `json:"hit_tokens"`
	PrefilledTokens int64  `json:"prefilled_tokens"`
}

func toPagesJSON(p shared.PageStats) pagesJSON {
	return pagesJSON{
		Off: p.Off, HostPages: p.Host.Pages, HostBytes: p.Host.Bytes, DiskPages: p.Disk.Pages, DiskBytes: p.Disk.Bytes,
		HitTokens: p.HitHostTokens + p.HitDiskTokens, PrefilledTokens: p.PrefilledTokens,
	}
}

func toSlotJSON(s shared.SlotInfo) slotJSON {
	return slotJSON{
		SlotID: s.SlotID, Model: s.Model, Identity: toIdentityJSON(s.Identity), Status: string(s.Status),
		Process: string(s.Process), PID: s.PID, Restarts: s.Restarts, LastError: s.LastError, Device: s.Device,
		Transfer: string(s.Transfer), Pinned: s.Pinned, PinNote: s.PinNote, DeviceModel: s.DeviceInfo.Model, TransferWhy: s.TransferReason, HostBytes: s.HostBytes,
		DeviceBytes: s.DeviceBytes, ContextTokens: s.ContextTokens, InFlight: s.InFlight,
		Stage: s.Progress.Stage, DoneBytes: s.Progress.DoneBytes, TotalBytes: s.Progress.TotalBytes,
		Parallel: s.Parallel, Running: s.Load.SequencesRunning, Waiting: s.Load.SequencesWaiting,
		KVTokensUsed: s.Load.KVTokensUsed, KVTokensTotal: s.Load.KVTokensTotal, Pages: toPagesJSON(s.Load.Pages),
	}
}

type slotActionBody struct {
	SlotID   string `json:"slot_id"`
	DropHost bool   `json:"drop_host"`
}

// slotAction prepares, evicts or restarts one slot. The slot is named in the
// body, since a slot id may contain a slash.
func (s *Server) slotAction(w http.ResponseWriter, r *http.Request) {
	var body slotActionBody
	if err := decodeBody(w, r, &body); err != nil {
		writeError(w, err)
		return
	}
	if body.SlotID == "" {
		writeError(w, badRequest("missing_parameter", "slot_id", "slot_id is missing"))
		return
	}
	var info shared.SlotInfo
	var err error
	switch r.PathValue("op") {
	case "prepare":
		info, err = s.frontend.Prepare(r.Context(), body.SlotID, nil)
	case "evict":
		info, err = s.frontend.Evict(r.Context(), body.SlotID, body.DropHost)
	case "restart":
		info, err = s.frontend.Restart(r.Context(), body.SlotID)
	default:
		err = &httpError{status: http.StatusNotFound, code: "unknown_action", message: "actions are prepare, evict and restart"}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, toSlotJSON(info))
}
