package slotworker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/firstframe/firstframe/shared"
)

// hostReaders is how many blocks are read at once. The hash runs beside them
// and is what limits a read from a warm page cache.
const hostReaders = 4

func (h *hostBuffer) fillMapped(ctx context.Context, read func(done, total int64)) error {
	for _, p := range h.parts {
		var err error
		if p.data, err = mapFile(p.file, p.info.Size()); err != nil {
			return shared.Errorf(shared.KindModelFile, "cannot map the model file: %w", err)
		}
	}
	var refused atomic.Pointer[error] // the first refusal to lock memory
	err := h.fill(ctx, read, func(b block) error {
		if refused.Load() == nil {
			err := lock(b.bytes())
			if err == nil {
				return nil
			}
			refused.CompareAndSwap(nil, &err)
		}
		return prefault(b.bytes())
	})
	if err != nil {
		return err
	}
	if why := refused.Load(); why != nil {
		// A partly locked model is as slow as its slowest page and takes the limit from others.
		for _, p := range h.parts {
			_ = unlock(p.data)
		}
		h.pinNote = pinNote(*why, h.size())
		return h.register()
	}
	h.pinned = true
	return h.register()
}

func (h *hostBuffer) fillPageable(ctx context.Context, read func(done, total int64)) error {
	for _, p := range h.parts {
		var err error
		if p.data, err = mapAnonymous(p.info.Size()); err != nil {
			return shared.Errorf(shared.KindUnavailable, "cannot get %d bytes of host memory: %w", p.info.Size(), err)
		}
	}
	if err := h.fillCopy(ctx, read); err != nil {
		return err
	}
	h.pinNote = "transfer pageable does not lock memory"
	for _, p := range h.parts {
		if err := protect(p.data); err != nil {
			return err
		}
	}
	return nil
}

// fillCopy reads the files into the memory of their parts.
func (h *hostBuffer) fillCopy(ctx context.Context, read func(done, total int64)) error {
	return h.fill(ctx, read, func(b block) error {
		_, err := b.part.file.ReadAt(b.bytes(), b.from)
		return err
	})
}

// block is a piece of one part.
type block struct {
	part     *hostPart
	from, to int64
}

func (b block) bytes() []byte { return b.part.data[b.from:b.to] }

// blocks cuts all parts, in order.
func (h *hostBuffer) blocks() []block {
	var list []block
	for _, p := range h.parts {
		for from := int64(0); from < p.info.Size(); from += hostBlock {
			list = append(list, block{p, from, min(from+hostBlock, p.info.Size())})
		}
	}
	return list
}

// fill prepares all blocks, several at once, and hashes them in order as they
// become ready.
func (h *hostBuffer) fill(ctx context.Context, read func(done, total int64), prepare func(b block) error) error {
	size, blocks := h.size(), h.blocks()
	ready := make([]chan struct{}, len(blocks))
	for i := range ready {
		ready[i] = make(chan struct{})
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(hostReaders, len(blocks)) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(blocks) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := prepare(blocks[i]); err != nil {
					return shared.Errorf(shared.KindModelFile, "cannot read the model file %s at byte %d: %w", blocks[i].part.path, blocks[i].from, err)
				}
				close(ready[i])
			}
		})
	}
	group.Go(func() (err error) {
		defer faultToError(&err, h.path)()
		hash := sha256.New()
		var done int64
		for i, b := range blocks {
			select {
			case <-ready[i]:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			hash.Write(b.bytes())
			done += b.to - b.from
			read(done, size)
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
