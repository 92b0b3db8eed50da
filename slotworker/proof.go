package slotworker

import (
	"github.com/firstframe/firstframe/shared"
)

// proof is what the bytes of a host buffer prove.
type proof struct {
	spec         shared.SlotSpec // with defaults filled in
	identity     shared.Identity
	chatTemplate string
}

func (w *Worker) proveHost(*hostBuffer, shared.PrefetchRequest) error {
	return shared.Errorf(shared.KindUnsupported, "not supported by this version yet")
}

func (p *proof) checkGeometry(ModelInfo) error { return nil }
