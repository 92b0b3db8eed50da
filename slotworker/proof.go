package slotworker

import (
	"bytes"
	"context"
	"fmt"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// proof is what the bytes of a host buffer prove, for the slot that asked.
type proof struct {
	spec     shared.SlotSpec // with defaults filled in
	identity shared.Identity
	header   *gguf.File
}

// proveHost reads the identity from the bytes that are held and compares it
// with what was expected and what was declared.
func (w *Worker) proveHost(ctx context.Context, h *hostBuffer, req shared.PrefetchRequest) (err error) {
	defer faultToError(&err, h.path)()
	var parts []gguf.Part
	for _, data := range h.data() {
		parts = append(parts, gguf.Part{R: bytes.NewReader(data), Size: int64(len(data))})
	}
	header, err := gguf.ReadParts(parts...)
	if err != nil {
		return err
	}
	if w.device != nil {
		req.Spec.DeviceKind = w.device.info.Kind()
	}
	adapters, err := w.proveAdapters(ctx, h, header, req.Spec)
	if err != nil {
		return err
	}
	p := &proof{header: header, identity: header.Identity(h.digest, req.Spec, adapters...)}
	if err := compareIdentity(p.identity, req.Expected); err != nil {
		return err
	}
	if err := gguf.CheckDeclared(req.Spec, p.identity); err != nil {
		return err
	}
	if p.spec, err = w.fillSpec(req.Spec, header.TrainedTokens()); err != nil {
		return err
	}
	if !w.checked[h.digest] {
		if err := header.CheckWeights(ctx, h.data()...); err != nil {
			return err
		}
		w.checked[h.digest] = true
	}
	h.proof = p
	return nil
}

// checkGeometry compares the model that the engine has built with the header
// that the identity was read from. Sizes that the header leaves out have no say.
func (p *proof) checkGeometry(m ModelInfo) error {
	g := p.header.Geometry()
	type size struct {
		name          string
		header, built int
	}
	sizes := []size{
		{"layers", g.Layers, m.Layers},
		{"embedding", g.Embedding, m.Embedding},
		{"vocabulary", g.Vocab, m.Vocab},
		{"trained context", p.header.TrainedTokens(), m.TrainedTokens},
	}
	if g.HeadsKVPerLayer == "" { // the engine tells one number for all layers
		sizes = append(sizes, size{"heads", g.Heads, m.Heads}, size{"KV heads", g.HeadsKV, m.HeadsKV})
	}
	for _, s := range sizes {
		if s.header != 0 && s.header != s.built {
			return geometryError(s.name, fmt.Sprint(s.header), fmt.Sprint(s.built))
		}
	}
	if m.Architecture != g.Architecture {
		return geometryError("architecture", g.Architecture, m.Architecture)
	}
	return nil
}

func geometryError(name, header, built string) error {
	return &shared.Error{
		Kind:    shared.KindIdentity,
		Field:   "layout_revision",
		Message: fmt.Sprintf("the engine built a model with %s %s, but the file's header says %s", name, built, header),
	}
}
