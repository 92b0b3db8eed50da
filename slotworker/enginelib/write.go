package enginelib

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writer fills one new engine directory and keeps its manifest.
type writer struct {
	dir      string
	device   Device
	manifest *Manifest
	wrote    func(int64)
}

// wants says whether a file belongs to the engine that is being installed.
func (w *writer) wants(name string) bool {
	p := part(name)
	return p != "" && (p != cudaPart || w.device == CUDA)
}

// file stores one library durably.
func (w *writer) file(ctx context.Context, name string, from io.Reader, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if size > maxLibrary {
		return fmt.Errorf("%s has %d bytes, more than a library has", name, size)
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write library: %w", err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(from, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	w.manifest.Files = append(w.manifest.Files, File{Name: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))})
	w.wrote(n)
	return nil
}

// link gives an installed file a second name.
func (w *writer) link(name, target string) error {
	if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
		return fmt.Errorf("cannot link library: %w", err)
	}
	w.manifest.Links = append(w.manifest.Links, Link{Name: name, Target: target})
	return nil
}

// finish links the plain names that are still missing, checks that the directory
// is an engine of the right version, and writes the manifest.
func (w *writer) finish() error {
	for _, lib := range libraries() {
		plain := lib + extension()
		if w.has(plain) {
			continue
		}
		var versions []string
		for _, f := range w.manifest.Files {
			if part(f.Name) == lib {
				versions = append(versions, f.Name)
			}
		}
		if len(versions) != 1 {
			return fmt.Errorf("%d files could be %s: %s", len(versions), plain, strings.Join(versions, ", "))
		}
		if err := w.link(plain, versions[0]); err != nil {
			return err
		}
	}
	if err := unmanaged(w.dir); err != nil {
		return err
	}
	if w.device == CUDA && !HasCUDA(w.dir) {
		return errors.New("no libggml-cuda library")
	}
	slices.SortFunc(w.manifest.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(w.manifest.Links, func(a, b Link) int { return strings.Compare(a.Name, b.Name) })
	if err := w.manifest.write(w.dir); err != nil {
		return err
	}
	return syncDir(w.dir)
}

func (w *writer) has(name string) bool {
	return slices.ContainsFunc(w.manifest.Files, func(f File) bool { return f.Name == name }) ||
		slices.ContainsFunc(w.manifest.Links, func(l Link) bool { return l.Name == name })
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
