package slotworker

import (
	"context"
	"fmt"
	"os"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/regular"
)

// hostBlock is the unit of reading, locking, hashing and progress.
const hostBlock = 1 << 20

// hostBuffer holds the bytes of one model in host memory.
type hostBuffer struct {
	id       string
	path     string
	asked    shared.Transfer // what the slot's setting came to
	transfer shared.Transfer // mmap, pageable or pinned, as it was done
	device   *slotDevice     // nil on the CPU
	probe    shared.TransferProbe
	reason   string      // why this transfer, when there was a choice
	parts    []*hostPart // the files of the model, mostly one
	digest   string      // "sha256:" and hex, of the data of all parts
	pinned   bool
	pinNote  string
	proof    *proof         // set by proveHost
	adapters []*adapterFile // of the slot that asked last
	// model is what an eviction left of the engine's model: it maps the bytes of
	// this buffer and has no memory of its own, so that keeping it costs nothing,
	// while mapping anew costs a fault for each page. Nil when there is none.
	model Model
}

// hostPart holds the bytes of one file.
type hostPart struct {
	path string
	data []byte      // a mapping of its own, read-only once filled
	file *os.File    // mmap only: the engine opens the same inode through it
	info os.FileInfo // of the file as it was read
	// free gives data back where it came from; nil means that it was mapped.
	free func([]byte) error
	// registered says that the device has locked data, too.
	registered bool
}

func (h *hostBuffer) size() int64 {
	var sum int64
	for _, p := range h.parts {
		sum += p.info.Size()
	}
	return sum
}

// data is what the parts hold.
func (h *hostBuffer) data() [][]byte {
	all := make([][]byte, len(h.parts))
	for i, p := range h.parts {
		all[i] = p.data
	}
	return all
}

// release gives the memory back. The engine must not use the buffer any more.
func (h *hostBuffer) release() error {
	if h.model != nil {
		h.model.Close()
		h.model = nil
	}
	for _, p := range h.parts {
		if err := p.release(h.device); err != nil {
			return err
		}
	}
	if err := closeAdapters(h.adapters); err != nil {
		return fmt.Errorf("cannot close an adapter: %w", err)
	}
	h.adapters = nil
	return nil
}

func (p *hostPart) release(device *slotDevice) error {
	if p.registered {
		if err := device.UnregisterHost(p.data); err != nil {
			return fmt.Errorf("cannot unlock the host buffer: %w", err)
		}
		p.registered = false
	}
	if p.data != nil {
		free := unmap
		if p.free != nil {
			free = p.free
		}
		if err := free(p.data); err != nil {
			return fmt.Errorf("cannot unmap the host buffer: %w", err)
		}
		p.data = nil
	}
	return p.close()
}

func (p *hostPart) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	if err != nil {
		return fmt.Errorf("cannot close the model file: %w", err)
	}
	return nil
}

// source is where the engine reads the weights.
func (h *hostBuffer) source() LoadRequest {
	req := LoadRequest{Device: shared.CPUDevice}
	if h.device != nil {
		req.Device, req.GPULayers = h.device.info.Name, h.proof.spec.GPULayers
	}
	// A device is filled from the bytes that are held here, which copies fastest
	// when they are locked; the engine's own mapping of a file would not be.
	if h.transfer == shared.TransferMmap && (h.device == nil || len(h.parts) > 1) {
		req.Path = enginePath(h.parts[0].file)
		for _, p := range h.parts[1:] {
			req.MoreParts = append(req.MoreParts, enginePath(p.file))
		}
	} else {
		req.Bytes = h.parts[0].data
	}
	for i, a := range h.adapters {
		req.Adapters = append(req.Adapters, AdapterSource{Path: enginePath(a.file), Name: a.path, Scale: h.proof.spec.Adapters[i].Scale})
	}
	return req
}

// holds reports whether the buffer still is what a new prefetch would read: the
// same file, unchanged, by the same strategy.
func (h *hostBuffer) holds(path string, transfer shared.Transfer) bool {
	if h.path != path || h.asked != transfer {
		return false
	}
	for _, p := range h.parts {
		if now, err := os.Stat(p.path); err != nil || !sameFile(p.info, now) {
			return false
		}
	}
	return true
}

// unchanged fails when a mapped file is no longer what was hashed. A mapping
// shows later writes to the file, so the proof ends with the first of them.
func (h *hostBuffer) unchanged() error {
	for _, a := range h.adapters {
		if err := a.unchanged(); err != nil {
			return err
		}
	}
	if h.transfer != shared.TransferMmap {
		return nil
	}
	for _, p := range h.parts {
		now, err := p.file.Stat()
		if err != nil {
			return shared.Errorf(shared.KindModelFile, "cannot look at the model file again: %w", err)
		}
		if !sameFile(p.info, now) {
			return shared.Errorf(shared.KindModelFile, "the model file %s was changed after it was read", p.path)
		}
	}
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// chooseTransfer turns a slot's transfer setting into a strategy. What auto means
// on a device is decided when there is something to decide by.
func chooseTransfer(spec shared.SlotSpec) (shared.Transfer, error) {
	switch t := spec.Transfer; t {
	case shared.TransferAuto, "":
		if spec.OnCPU() {
			return shared.TransferMmap, nil
		}
		return shared.TransferAuto, nil
	case shared.TransferMmap, shared.TransferPageable, shared.TransferPinned:
		return t, nil
	default:
		return "", &shared.Error{Kind: shared.KindInvalid, Field: "transfer", Message: fmt.Sprintf("unknown transfer %q", t)}
	}
}

// hostOrder is what a host buffer is to be.
type hostOrder struct {
	path     string
	transfer shared.Transfer
	device   *slotDevice // nil on the CPU
	uploads  int         // how often it is going to be copied there, about
}

// readHost fills a host buffer and hashes what it holds. read is told the bytes
// hashed so far; it is called from one goroutine.
func readHost(ctx context.Context, order hostOrder, read func(done, total int64)) (h *hostBuffer, err error) {
	h = &hostBuffer{path: order.path, asked: order.transfer, transfer: order.transfer, device: order.device}
	defer func() {
		if err != nil {
			_ = h.release() // the first error is the one that tells
			h = nil
		}
	}()
	if err = h.open(); err != nil {
		return h, err
	}
	if err = h.decide(ctx, order.uploads); err != nil {
		return h, err
	}
	switch h.transfer {
	case shared.TransferMmap:
		err = h.fillMapped(ctx, read)
	case shared.TransferPinned:
		err = h.fillPinned(ctx, read)
	default:
		err = h.fillPageable(ctx, read)
	}
	if err != nil {
		return h, err
	}
	return h, h.checkStill()
}

// openModel opens a file that has something in it.
func openModel(path string) (*os.File, os.FileInfo, error) {
	file, info, err := regular.Open(path)
	if err != nil {
		return nil, nil, shared.Errorf(shared.KindModelFile, "cannot open the model file: %w", err)
	}
	if info.Size() == 0 {
		_ = file.Close() // nothing was read
		return nil, nil, shared.Errorf(shared.KindModelFile, "%s is empty", path)
	}
	return file, info, nil
}

// open opens all files of the model.
func (h *hostBuffer) open() error {
	paths, err := gguf.Parts(h.path)
	if err != nil {
		return err
	}
	if len(paths) > 1 && (h.transfer == shared.TransferPageable || h.transfer == shared.TransferPinned) {
		return &shared.Error{
			Kind: shared.KindUnsupported, Field: "transfer",
			Message: fmt.Sprintf("transfer %s is not supported for a model of %d files; use mmap, or join the files", h.transfer, len(paths)),
		}
	}
	for i, path := range paths {
		file, info, err := openModel(path)
		if err != nil {
			if len(paths) > 1 {
				err = gguf.MissingPart(path, i, len(paths), err)
			}
			return err
		}
		h.parts = append(h.parts, &hostPart{path: path, file: file, info: info})
	}
	return nil
}

// checkStill compares the open files and what their paths name now with the
// files as they were before reading.
func (h *hostBuffer) checkStill() error {
	for _, p := range h.parts {
		byPath, err := os.Stat(p.path)
		if err != nil || !sameFile(p.info, byPath) {
			return shared.Errorf(shared.KindModelFile, "the model file %s was changed while it was read", p.path)
		}
		if h.transfer != shared.TransferMmap {
			if err := p.close(); err != nil {
				return err
			}
		}
	}
	return h.unchanged()
}

func pinNote(refused error, size int64) string {
	if limit, bounded := memlockLimit(); bounded {
		return fmt.Sprintf("mlock refused: memlock limit %d bytes, the model has %d", limit, size)
	}
	return fmt.Sprintf("mlock refused: %v", refused)
}
