package enginelib

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1
	maxManifest    = 1 << 20
)

// Manifest says what was installed. It is written last, so a directory that has
// one is complete.
type Manifest struct {
	Format    int    `json:"format"`
	Engine    string `json:"engine"`
	Version   string `json:"version"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Device    Device `json:"device,omitempty"`
	Source    string `json:"source"`              // package name and version, or the directory
	Integrity string `json:"integrity,omitempty"` // of the package; empty for a directory
	Files     []File `json:"files"`
	Links     []Link `json:"links"`
}

// File is one installed file.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Link is a second name of an installed file.
type Link struct {
	Name   string `json:"name"`
	Target string `json:"target"`
}

// newManifest is the frame that an installation fills.
func newManifest(source, integrity string, device Device) *Manifest {
	return &Manifest{
		Format: manifestFormat, Engine: "llama.cpp", Version: shared.EngineVersion,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Device: device, Source: source, Integrity: integrity,
	}
}

// fingerprint is one digest over the names and digests of all files, so that the
// contents of a pinned package can be compiled in as one string.
func (m *Manifest) fingerprint() string {
	lines := make([]string, 0, len(m.Files))
	for _, f := range m.Files {
		lines = append(lines, fmt.Sprintf("%s %d %s\n", f.Name, f.Size, f.SHA256))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}

// validate refuses a manifest that this build does not understand or that names
// anything outside its directory.
func (m *Manifest) validate() error {
	switch {
	case m.Format != manifestFormat:
		return fmt.Errorf("manifest format %d is not %d", m.Format, manifestFormat)
	case m.Version != shared.EngineVersion:
		return fmt.Errorf("engine version %q is not %q", m.Version, shared.EngineVersion)
	case m.OS != runtime.GOOS || m.Arch != runtime.GOARCH:
		return fmt.Errorf("engine for %s/%s, not %s/%s", m.OS, m.Arch, runtime.GOOS, runtime.GOARCH)
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		if part(f.Name) == "" || filepath.Base(f.Name) != f.Name || names[f.Name] {
			return fmt.Errorf("manifest names file %q", f.Name)
		}
		names[f.Name] = true
	}
	for _, l := range m.Links {
		if part(l.Name) == "" || filepath.Base(l.Name) != l.Name || names[l.Name] || !names[l.Target] {
			return fmt.Errorf("manifest names link %q to %q", l.Name, l.Target)
		}
	}
	return nil
}

// readManifest gives fs.ErrNotExist for a directory that has none.
func readManifest(dir string) (*Manifest, error) {
	data, err := regular.Read(filepath.Join(dir, manifestName), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", manifestName, err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", manifestName, err)
	}
	if err := m.validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// write stores the manifest; the caller makes the directory durable.
func (m *Manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode manifest: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, manifestName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write manifest: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// present compares names, sizes and links with the manifest, without reading the
// files.
func (m *Manifest) present(dir string) error {
	known := map[string]bool{manifestName: true}
	for _, f := range m.Files {
		known[f.Name] = true
		info, err := os.Lstat(filepath.Join(dir, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s is missing", f.Name)
		case err != nil:
			return fmt.Errorf("cannot look at %s: %w", f.Name, err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a plain file", f.Name)
		case info.Size() != f.Size:
			return fmt.Errorf("%s has %d bytes instead of %d", f.Name, info.Size(), f.Size)
		}
	}
	for _, l := range m.Links {
		known[l.Name] = true
		target, err := os.Readlink(filepath.Join(dir, l.Name))
		if err != nil {
			return fmt.Errorf("link %s is missing: %w", l.Name, err)
		}
		if target != l.Target {
			return fmt.Errorf("link %s leads to %s instead of %s", l.Name, target, l.Target)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot list the engine's directory: %w", err)
	}
	// The engine loads every backend library that it finds beside it.
	for _, e := range entries {
		if !known[e.Name()] {
			return fmt.Errorf("%s was not installed with the engine", e.Name())
		}
	}
	return nil
}
