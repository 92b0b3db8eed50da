package slotworker

import (
	"context"
	"errors"
	"fmt"

	"github.com/firstframe/firstframe/shared"
)

// decide settles what auto means on a device: what copying was measured to cost
// there, set against what locking costs.
func (h *hostBuffer) decide(ctx context.Context, uploads int) error {
	switch {
	case h.transfer != shared.TransferAuto:
		return nil
	case len(h.parts) > 1:
		h.transfer = shared.TransferMmap
		h.reason = fmt.Sprintf("mmap: the model has %d files", len(h.parts))
		return nil
	}
	var err error
	if h.probe, err = h.device.Probe(ctx); err != nil {
		return shared.Errorf(shared.KindOf(err), "cannot measure copies to %s: %w", h.device.info.Name, err)
	}
	h.transfer, h.reason = ChooseTransfer(h.probe, h.size(), uploads)
	return nil
}

// fillPinned reads the model into memory that cannot be moved: the device's own,
// or on the CPU locked memory of the system. Where that is refused it is pageable
// memory after all, and the buffer says so.
func (h *hostBuffer) fillPinned(ctx context.Context, read func(done, total int64)) error {
	if h.device == nil {
		if err := h.fillPageable(ctx, read); err != nil {
			return err
		}
		return h.lockCopy()
	}
	for _, p := range h.parts {
		data, err := h.device.pool.Get(p.info.Size())
		if errors.Is(err, ErrDeviceLost) {
			return err
		}
		if err != nil {
			h.transfer = shared.TransferPageable
			if err := h.fillPageable(ctx, read); err != nil {
				return err
			}
			h.pinNote = fmt.Sprintf("page-locking was refused, so the host buffer is pageable: %v", err)
			return nil
		}
		p.data, p.free = data, h.device.pool.Put
	}
	if err := h.fillCopy(ctx, read); err != nil {
		return err
	}
	h.pinned = true
	return nil
}

// lockCopy locks the memory of a copy, all of it or none.
func (h *hostBuffer) lockCopy() error {
	for i, p := range h.parts {
		err := lock(p.data)
		if err == nil {
			continue
		}
		for _, locked := range h.parts[:i] {
			_ = unlock(locked.data)
		}
		h.transfer = shared.TransferPageable
		h.pinNote = pinNote(err, h.size())
		return nil
	}
	h.pinned, h.pinNote = true, ""
	return nil
}

// register has the device lock mapped files, so that it copies out of them as it
// does out of its own memory. Not every driver takes memory that cannot be written.
func (h *hostBuffer) register() error {
	if h.device == nil {
		return nil
	}
	if len(h.parts) > 1 {
		h.pinned = false
		h.pinNote = fmt.Sprintf("the engine maps a model of %d files by itself", len(h.parts))
		return nil
	}
	p := h.parts[0]
	err := h.device.RegisterHost(p.data)
	if errors.Is(err, ErrDeviceLost) {
		return err
	}
	if err != nil {
		h.pinned, h.pinNote = false, fmt.Sprintf("the driver does not page-lock the mapped file: %v", err)
		return nil
	}
	p.registered, h.pinned, h.pinNote = true, true, ""
	return nil
}
