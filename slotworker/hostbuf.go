package slotworker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/firstframe/firstframe/shared"
)

// hostBlock is the unit of reading, locking, hashing and progress.
const hostBlock = 1 << 20

// hostReaders is how many blocks are read at once. The hash runs beside them
// and is what limits a read from a warm page cache.
const hostReaders = 4

// hostBuffer holds the bytes of one model file in host memory.
type hostBuffer struct {
	id       string
	path     string
	transfer shared.Transfer // mmap or pageable
	data     []byte          // a mapping of its own, read-only once filled
	file     *os.File        // mmap only: the engine opens the same inode through it
	info     os.FileInfo     // of the file as it was read
	digest   string          // "sha256:" and hex, of data
	pinned   bool
	pinNote  string
	proof    *proof         // set by proveHost
	adapters []*adapterFile // of the slot that asked last
}

func (h *hostBuffer) size() int64 { return int64(len(h.data)) }

// release gives the memory back. The engine must not use the buffer any more.
func (h *hostBuffer) release() error {
	if h.data != nil {
		if err := unmap(h.data); err != nil {
			return fmt.Errorf("cannot unmap the host buffer: %w", err)
		}
		h.data = nil
	}
	if h.file != nil {
		if err := h.file.Close(); err != nil {
			return fmt.Errorf("cannot close the model file: %w", err)
		}
		h.file = nil
	}
	if err := closeAdapters(h.adapters); err != nil {
		return fmt.Errorf("cannot close an adapter: %w", err)
	}
	h.adapters = nil
	return nil
}

// source is where the engine reads the weights.
func (h *hostBuffer) source() LoadRequest {
	var req LoadRequest
	if h.transfer == shared.TransferMmap {
		req.Path = enginePath(h.file)
	} else {
		req.Bytes = h.data
	}
	for i, a := range h.adapters {
		req.Adapters = append(req.Adapters, AdapterSource{Path: enginePath(a.file), Name: a.path, Scale: h.proof.spec.Adapters[i].Scale})
	}
	return req
}

// holds reports whether the buffer still is what a new prefetch would read: the
// same file, unchanged, by the same strategy.
func (h *hostBuffer) holds(path string, transfer shared.Transfer) bool {
	if h.path != path || h.transfer != transfer {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && sameFile(h.info, now)
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
	now, err := h.file.Stat()
	if err != nil {
		return shared.Errorf(shared.KindModelFile, "cannot look at the model file again: %w", err)
	}
	if !sameFile(h.info, now) {
		return shared.Errorf(shared.KindModelFile, "the model file %s was changed after it was read", h.path)
	}
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// chooseTransfer turns a slot's transfer setting into a strategy.
func chooseTransfer(t shared.Transfer) (shared.Transfer, error) {
	switch t {
	case shared.TransferAuto, shared.TransferMmap, "":
		return shared.TransferMmap, nil
	case shared.TransferPageable:
		return shared.TransferPageable, nil
	case shared.TransferPinned:
		return "", &shared.Error{Kind: shared.KindUnsupported, Field: "transfer", Message: "transfer pinned is not supported by this version yet"}
	default:
		return "", &shared.Error{Kind: shared.KindInvalid, Field: "transfer", Message: fmt.Sprintf("unknown transfer %q", t)}
	}
}

// readHost fills a host buffer and hashes what it holds. read is told the bytes
// hashed so far; it is called from one goroutine.
func readHost(ctx context.Context, path string, transfer shared.Transfer, read func(done, total int64)) (h *hostBuffer, err error) {
	file, info, err := openModel(path)
	if err != nil {
		return nil, err
	}
	h = &hostBuffer{path: path, transfer: transfer, info: info, file: file}
	defer func() {
		if err != nil {
			_ = h.release() // the first error is the one that tells
			h = nil
		}
	}()
	if transfer == shared.TransferMmap {
		err = h.fillMapped(ctx, read)
	} else {
		err = h.fillPageable(ctx, read)
	}
	if err != nil {
		return h, err
	}
	return h, h.checkStill()
}

// openModel opens a regular file. O_NONBLOCK keeps a named pipe from blocking.
func openModel(path string) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, shared.Errorf(shared.KindModelFile, "cannot open the model file: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = shared.Errorf(shared.KindModelFile, "cannot look at the model file: %w", err)
	case !info.Mode().IsRegular():
		err = shared.Errorf(shared.KindModelFile, "%s is not a regular file", path)
	case info.Size() == 0:
		err = shared.Errorf(shared.KindModelFile, "%s is empty", path)
	default:
		return file, info, nil
	}
	_ = file.Close()
	return nil, nil, err
}

// checkStill compares the open file and what the path names now with the file
// as it was before reading.
func (h *hostBuffer) checkStill() error {
	byPath, err := os.Stat(h.path)
	if err != nil || !sameFile(h.info, byPath) {
		return shared.Errorf(shared.KindModelFile, "the model file %s was changed while it was read", h.path)
	}
	if h.transfer != shared.TransferMmap {
		err := h.file.Close()
		h.file = nil
		return err
	}
	return h.unchanged()
}

func (h *hostBuffer) fillMapped(ctx context.Context, read func(done, total int64)) error {
	var err error
	if h.data, err = mapFile(h.file, h.info.Size()); err != nil {
		return shared.Errorf(shared.KindModelFile, "cannot map the model file: %w", err)
	}
	var refused atomic.Pointer[error] // the first refusal to lock memory
	err = h.fill(ctx, read, func(lo, hi int64) error {
		if refused.Load() == nil {
			err := lock(h.data[lo:hi])
			if err == nil {
				return nil
			}
			refused.CompareAndSwap(nil, &err)
		}
		return prefault(h.data[lo:hi])
	})
	if err != nil {
		return err
	}
	if why := refused.Load(); why != nil {
		// A partly locked model is as slow as its slowest page and takes the limit from others.
		_ = unlock(h.data)
		h.pinNote = pinNote(*why, h.size())
		return nil
	}
	h.pinned = true
	return nil
}

func (h *hostBuffer) fillPageable(ctx context.Context, read func(done, total int64)) error {
	var err error
	if h.data, err = mapAnonymous(h.info.Size()); err != nil {
		return shared.Errorf(shared.KindUnavailable, "cannot get %d bytes of host memory: %w", h.info.Size(), err)
	}
	err = h.fill(ctx, read, func(lo, hi int64) error {
		_, err := h.file.ReadAt(h.data[lo:hi], lo)
		return err
	})
	if err != nil {
		return err
	}
	h.pinNote = "transfer pageable does not lock memory"
	return protect(h.data)
}

// fill prepares all blocks, several at once, and hashes them in order as they
// become ready.
func (h *hostBuffer) fill(ctx context.Context, read func(done, total int64), prepare func(lo, hi int64) error) error {
	size := h.size()
	blocks := int((size + hostBlock - 1) / hostBlock)
	bounds := func(i int) (int64, int64) {
		lo := int64(i) * hostBlock
		return lo, min(lo+hostBlock, size)
	}
	ready := make([]chan struct{}, blocks)
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(hostReaders, blocks) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= blocks {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				lo, hi := bounds(i)
				if err := prepare(lo, hi); err != nil {
					return shared.Errorf(shared.KindModelFile, "cannot read the model file at byte %d: %w", lo, err)
				}
				close(ready[i])
			}
		})
	}
	group.Go(func() (err error) {
		defer faultToError(&err, h.path)()
		hash := sha256.New()
		for i := range blocks {
			select {
			case <-ready[i]:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			lo, hi := bounds(i)
			hash.Write(h.data[lo:hi])
			read(hi, size)
		}
		h.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
		return nil
	})
	return group.Wait()
}

// faultToError makes the calling goroutine survive the memory fault that
// reading a mapping raises when somebody has cut the file short. The function
// it returns has to be deferred.
func faultToError(err *error, path string) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		fault := recover()
		if fault == nil {
			return
		}
		if _, isFault := fault.(interface{ Addr() uintptr }); !isFault {
			panic(fault)
		}
		*err = shared.Errorf(shared.KindModelFile, "the model file %s was cut short while it was read", path)
	}
}

func pinNote(refused error, size int64) string {
	if limit, bounded := memlockLimit(); bounded {
		return fmt.Sprintf("mlock refused: memlock limit %d bytes, the model has %d", limit, size)
	}
	return fmt.Sprintf("mlock refused: %v", refused)
}
