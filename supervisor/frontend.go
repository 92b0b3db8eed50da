package supervisor

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

var errNotYet = shared.Errorf(shared.KindUnsupported, "not supported by this version yet")

// ListSlots gives all slots in declaration order.
func (s *Supervisor) ListSlots(context.Context) (shared.SlotList, error) {
	return shared.SlotList{}, errNotYet
}

// WatchSlots calls changed at once and after each change.
func (s *Supervisor) WatchSlots(context.Context, func(shared.SlotList) error) error { return errNotYet }

// Resolve finds the one identity that a requirement means.
func (s *Supervisor) Resolve(context.Context, shared.Requirement) (shared.Resolution, error) {
	return shared.Resolution{}, errNotYet
}

// Generate serves one request.
func (s *Supervisor) Generate(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
	return shared.Result{}, errNotYet
}

// Prepare makes a slot resident.
func (s *Supervisor) Prepare(context.Context, string, func(shared.Progress)) (shared.SlotInfo, error) {
	return shared.SlotInfo{}, errNotYet
}

// Evict frees a slot's device buffers.
func (s *Supervisor) Evict(context.Context, string, bool) (shared.SlotInfo, error) {
	return shared.SlotInfo{}, errNotYet
}

// Restart kills a slot's worker and starts another.
func (s *Supervisor) Restart(context.Context, string) (shared.SlotInfo, error) {
	return shared.SlotInfo{}, errNotYet
}

// Tokenize turns text into token ids.
func (s *Supervisor) Tokenize(context.Context, shared.TokenizeRequest) ([]int32, error) {
	return nil, errNotYet
}

// ApplyTemplate renders a chat.
func (s *Supervisor) ApplyTemplate(context.Context, shared.ApplyTemplateRequest) (string, error) {
	return "", errNotYet
}
