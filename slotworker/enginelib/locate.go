package enginelib

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// Locate finds an engine that can be loaded, without installing anything: the
// directory named in the environment and no other, else the one in the user's
// cache, else a library that the system has. It checks that all files are there
// with their sizes; Verify reads them.
func Locate(ctx context.Context) (string, error) {
	dir, err := Dir(CPU)
	if err != nil {
		return "", err
	}
	missing := usable(dir)
	if missing == nil {
		return dir, nil
	}
	if os.Getenv(EnvDir) != "" {
		return "", shared.Errorf(shared.KindEngineMissing, "%s is set, but cannot be used: %w", EnvDir, missing)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if system, ok := findSystem(systemDirs()); ok {
		return system, nil
	}
	return "", shared.Errorf(shared.KindEngineMissing, "version %s of the engine library is not installed, run `firstframe engine install`: %w", shared.EngineVersion, missing)
}

// LocateCUDA finds an engine with a CUDA backend in the same way: one of its own,
// or the other one when that has such a backend.
func LocateCUDA(ctx context.Context) (string, error) {
	dir, err := Dir(CUDA)
	if err != nil {
		return "", err
	}
	missing := usable(dir)
	if missing == nil && !HasCUDA(dir) {
		missing = shared.Errorf(shared.KindEngineMissing, "the engine library in %s has no CUDA backend", dir)
	}
	if missing == nil {
		return dir, nil
	}
	if os.Getenv(EnvCUDADir) != "" {
		return "", shared.Errorf(shared.KindEngineMissing, "%s is set, but cannot be used: %w", EnvCUDADir, missing)
	}
	if other, err := Locate(ctx); err == nil && HasCUDA(other) {
		return other, nil
	}
	return "", shared.Errorf(shared.KindEngineMissing, "version %s of the engine library for CUDA is not installed, run `%s`: %w", shared.EngineVersion, CUDA.command(), missing)
}

// usable is Verify without reading what was installed.
func usable(dir string) error {
	m, err := readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return unmanaged(dir)
	}
	if err == nil {
		err = m.present(dir)
	}
	if err != nil {
		return shared.Errorf(shared.KindEngineMissing, "the engine library in %s is damaged: %w", dir, err)
	}
	return nil
}

// systemDirs are the places where package managers and `make install` put libraries.
func systemDirs() []string {
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	dirs = append(dirs, "/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64")
	switch runtime.GOARCH {
	case "amd64":
		dirs = append(dirs, "/usr/lib/x86_64-linux-gnu")
	case "arm64":
		dirs = append(dirs, "/usr/lib/aarch64-linux-gnu", "/opt/homebrew/lib")
	}
	return dirs
}

// findSystem gives the first directory that has the whole engine in exactly this
// version: both the library's file name and its bytes have to say so, since
// builds after a release carry the release's version in their bytes too.
func findSystem(dirs []string) (string, bool) {
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) || complete(dir) != nil {
			continue
		}
		file, err := filepath.EvalSymlinks(filepath.Join(dir, "libllama"+extension()))
		if err != nil || !strings.Contains(filepath.Base(file), "."+shared.EngineVersion) && !strings.Contains(filepath.Base(file), ".v"+shared.EngineVersion) {
			continue
		}
		if ok, err := carriesVersion(file); err == nil && ok {
			return dir, true
		}
	}
	return "", false
}
