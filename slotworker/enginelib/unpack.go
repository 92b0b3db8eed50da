package enginelib

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// unpack checks a tarball against the pin and only then writes its libraries.
// The file stays open in between, so what was checked is what is unpacked.
func (w *writer) unpack(ctx context.Context, tarball string, p pin) error {
	f, err := os.Open(tarball)
	if err != nil {
		return fmt.Errorf("cannot open package: %w", err)
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("cannot read package: %w", err)
	}
	got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
	if got != p.Integrity {
		return fmt.Errorf("%s is not the package %s: its integrity is %s, expected %s", filepath.Base(tarball), p.spec(), got, p.Integrity)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("cannot read package: %w", err)
	}
	return w.untar(ctx, f, p.Dir, p.As)
}

// untar writes the libraries in one folder of a compressed tar stream. When it
// holds one only, that may get another name.
func (w *writer) untar(ctx context.Context, r io.Reader, folder, as string) error {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("cannot unpack: %w", err)
	}
	entries := tar.NewReader(unzipped)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot unpack: %w", err)
		}
		if !fs.ValidPath(strings.TrimSuffix(entry.Name, "/")) {
			return fmt.Errorf("cannot unpack: entry %q leaves its folder", entry.Name)
		}
		name := path.Base(entry.Name)
		if path.Dir(entry.Name) != folder || !w.wants(name) {
			continue
		}
		if entry.Typeflag != tar.TypeReg {
			return fmt.Errorf("cannot unpack: %q is not a plain file", entry.Name)
		}
		if as != "" {
			name = as
		}
		if err := w.file(ctx, name, entries, entry.Size); err != nil {
			return err
		}
	}
}

// copyDir takes the libraries of a directory that the operator vouches for. Links
// between them are kept, since libraries find each other by versioned names.
func (w *writer) copyDir(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read engine directory: %w", err)
	}
	links := map[string]string{}
	for _, e := range entries {
		if !w.wants(e.Name()) {
			continue
		}
		file, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("cannot read library: %w", err)
		}
		if base := filepath.Base(file); e.Type()&fs.ModeSymlink != 0 && isEntry(dir, base, file) {
			links[e.Name()] = base
			continue
		}
		if err := w.copyFile(ctx, e.Name(), file); err != nil {
			return err
		}
	}
	// The package with the second CUDA backend has it in a folder of its own.
	second := filepath.Join(dir, "fallback", cudaPart+".so")
	if _, err := os.Stat(second); err == nil && w.device == CUDA {
		if err := w.copyFile(ctx, secondCUDA, second); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := w.link(name, target); err != nil {
			return err
		}
	}
	return nil
}

// isEntry says whether file is the plain file of that name in dir.
func isEntry(dir, name, file string) bool {
	if part(name) == "" {
		return false
	}
	here, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !here.Mode().IsRegular() {
		return false
	}
	there, err := os.Lstat(file)
	return err == nil && os.SameFile(here, there)
}

func (w *writer) copyFile(ctx context.Context, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("cannot read library: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot read library: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a plain file", file)
	}
	return w.file(ctx, name, f, info.Size())
}
