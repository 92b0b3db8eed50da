package enginelib

import (
	"runtime"
	"slices"
	"strings"
)

// libraries are the parts of the engine that are loaded by their plain name.
func libraries() []string { return []string{"libllama", "libggml", "libggml-base"} }

// extension is how shared libraries end on this platform.
func extension() string {
	if runtime.GOOS == "darwin" {
		return ".dylib"
	}
	return ".so"
}

// The backends that are kept apart from the other parts. The second CUDA one is for
// the runtime of the major version before.
const (
	cpuPart    = "libggml-cpu"
	cudaPart   = "libggml-cuda"
	secondCUDA = "libggml-cuda12.so"
)

// part says which part of the engine a file name belongs to: the libraries by
// their stem, every CPU variant as libggml-cpu, CUDA backends as libggml-cuda. Other files, also the ones that
// come along in packages and are not needed, have none.
func part(name string) string {
	if !isLibrary(name) {
		return ""
	}
	for _, backend := range []string{cpuPart, cudaPart} {
		if strings.HasPrefix(name, backend) {
			return backend
		}
	}
	stem, _, _ := strings.Cut(name, ".")
	if slices.Contains(libraries(), stem) {
		return stem
	}
	return ""
}

// isLibrary takes libx.so, libx.v1.so, libx.so.1 and the same with dylib.
// Modules that the engine opens by itself end in .so on every platform.
func isLibrary(name string) bool {
	if !strings.HasPrefix(name, "lib") {
		return false
	}
	return strings.HasSuffix(name, ".so") || strings.HasSuffix(name, ".dylib") || strings.Contains(name, ".so.")
}
