package enginelib

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// Verify reads every file of an engine directory and compares it with what was
// installed; files of a pinned package are compared with what is compiled in as
// well. A directory that was not made by Install has no digests to compare with:
// there only completeness and the version mark are checked.
func Verify(dir string) error {
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return unmanaged(dir)
	}
	device := CPU
	if err == nil {
		device = m.Device
		p, _ := pinFor(runtime.GOOS, runtime.GOARCH, device)
		err = m.verify(dir, p)
	}
	if err != nil {
		return shared.Errorf(shared.KindEngineMissing, "the engine library in %s is damaged, run `%s`: %w", dir, device.command(), err)
	}
	return nil
}

// verify compares files with the manifest, and a manifest that claims to be of a
// package with the pin.
func (m *Manifest) verify(dir string, p pin) error {
	if m.Integrity != "" && (m.Integrity != p.Integrity || m.fingerprint() != p.Files) {
		return fmt.Errorf("%s does not describe the pinned package", manifestName)
	}
	if err := m.present(dir); err != nil {
		return err
	}
	for _, f := range m.Files {
		sum, err := digest(filepath.Join(dir, f.Name))
		if err != nil {
			return err
		}
		if sum != f.SHA256 {
			return fmt.Errorf("%s has sha256 %s instead of %s", f.Name, sum, f.SHA256)
		}
	}
	return nil
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot check library: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("cannot check library: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unmanaged checks a directory that someone else filled.
func unmanaged(dir string) error {
	if err := complete(dir); err != nil {
		return shared.Errorf(shared.KindEngineMissing, "no engine library in %s: %w", dir, err)
	}
	lib := filepath.Join(dir, "libllama"+extension())
	ok, err := carriesVersion(lib)
	if err != nil {
		return shared.Errorf(shared.KindEngineMissing, "no engine library in %s: %w", dir, err)
	}
	if !ok {
		return shared.Errorf(shared.KindEngineMissing, "%s is not version %s of the engine", lib, shared.EngineVersion)
	}
	return nil
}

// complete says what a directory lacks of an engine.
func complete(dir string) error {
	for _, lib := range libraries() {
		if _, err := os.Stat(filepath.Join(dir, lib+extension())); err != nil {
			return fmt.Errorf("no %s%s: %w", lib, extension(), errors.Unwrap(err))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if part(e.Name()) == cpuPart {
			return nil
		}
	}
	return errors.New("no libggml-cpu library")
}

// HasCUDA says whether a folder has a CUDA backend. Whether that can be loaded is
// another question.
func HasCUDA(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return part(e.Name()) == cudaPart })
}
