package slotworker

import (
	"bytes"
	"context"
	"os"
	"slices"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// adapterFile is an adapter that was read and checked. It stays open, since the
// engine has to read the very file that was hashed.
type adapterFile struct {
	path   string
	file   *os.File
	info   os.FileInfo
	digest string
	header *gguf.Adapter
}

// unchanged fails when the file is no longer what was hashed.
func (a *adapterFile) unchanged() error {
	now, err := a.file.Stat()
	if err != nil {
		return shared.Errorf(shared.KindModelFile, "cannot look at the adapter again: %w", err)
	}
	if !sameFile(a.info, now) {
		return shared.Errorf(shared.KindModelFile, "the adapter %s was changed after it was read", a.path)
	}
	return nil
}

// holds reports whether reading the path would give the same again.
func (a *adapterFile) holds(path string) bool {
	now, err := os.Stat(path)
	return a.path == path && err == nil && sameFile(a.info, now)
}

// proveAdapters reads the adapters of a slot, unless the buffer has them from
// before, and checks that they are for its model. It gives their revisions.
func (w *Worker) proveAdapters(ctx context.Context, h *hostBuffer, model *gguf.File, spec shared.SlotSpec) ([]string, error) {
	before := h.adapters
	h.adapters = nil
	var revisions []string
	var err error
	for _, want := range spec.Adapters {
		var a *adapterFile
		if i := slices.IndexFunc(before, func(a *adapterFile) bool { return a.holds(want.Path) }); i >= 0 {
			a = before[i]
			before = slices.Delete(before, i, i+1)
		} else if a, err = w.readAdapter(ctx, want.Path); err != nil {
			break
		}
		h.adapters = append(h.adapters, a)
		revisions = append(revisions, a.digest)
		if err = a.header.Fits(model); err != nil {
			err = gguf.AdapterError(want.Path, err)
			break
		}
	}
	if closeErr := closeAdapters(before); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return revisions, gguf.CheckAdapters(spec, revisions)
}

// readAdapter hashes and checks one adapter.
func (w *Worker) readAdapter(ctx context.Context, path string) (*adapterFile, error) {
	file, info, err := openModel(path)
	if err != nil {
		return nil, gguf.AdapterError(path, err)
	}
	a := &adapterFile{path: path, file: file, info: info}
	if err = w.hashAdapter(ctx, a); err == nil {
		err = a.unchanged()
	}
	if err != nil {
		_ = file.Close() // the first error is the one that tells
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, gguf.AdapterError(path, err)
	}
	return a, nil
}

func (w *Worker) hashAdapter(ctx context.Context, a *adapterFile) (err error) {
	data, err := mapFile(a.file, a.info.Size())
	if err != nil {
		return shared.Errorf(shared.KindModelFile, "cannot map the file: %w", err)
	}
	defer func() { err = firstError(err, unmap(data)) }()
	defer faultToError(&err, a.path)()
	if a.header, err = gguf.ReadAdapter(bytes.NewReader(data), a.info.Size()); err != nil {
		return err
	}
	progress := func(int64) { w.progress.Add(1) }
	if a.digest, err = gguf.Digest(ctx, bytes.NewReader(data), a.info.Size(), progress); err != nil {
		return err
	}
	if !w.checked[a.digest] {
		if err := a.header.CheckWeights(ctx, data); err != nil {
			return err
		}
		w.checked[a.digest] = true
	}
	return nil
}

func closeAdapters(list []*adapterFile) error {
	var first error
	for _, a := range list {
		first = firstError(first, a.file.Close())
	}
	return first
}
