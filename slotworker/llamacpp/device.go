package llamacpp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
)

// secondCUDA is the CUDA backend for machines with the runtime of the major version
// before. It has a name by which the library does not find it by itself.
const secondCUDA = "libggml-cuda12.so"

// loadSecondCUDA tries the other CUDA backend of the folder when the first could
// not be loaded, as when the runtime libraries of its version are not installed.
func (e *Engine) loadSecondCUDA() {
	path := filepath.Join(e.dir, secondCUDA)
	if _, err := os.Stat(path); err != nil || cudaDevice(0) != 0 {
		return
	}
	name := &append([]byte(path), 0)[0]
	var loaded uintptr
	e.native.backend.Call(&loaded, &name)
}

func cudaDevice(number int) llama.GGMLBackendDevice {
	return llama.GGMLBackendDeviceByName(fmt.Sprintf("CUDA%d", number))
}

// findDevice gives the library's own name for a device, and the device; there is
// none for the CPU.
func (e *Engine) findDevice(name string) (string, llama.GGMLBackendDevice, error) {
	if shared.IsCPU(name) {
		return "", 0, nil
	}
	var number int
	if _, err := fmt.Sscanf(name, "cuda:%d", &number); err != nil || number < 0 {
		return "", 0, shared.Errorf(shared.KindInvalid, "a device is cpu or cuda:N, not %q", name)
	}
	if device := cudaDevice(number); device != 0 {
		return fmt.Sprintf("CUDA%d", number), device, nil
	}
	if cudaDevice(0) != 0 {
		return "", 0, shared.Errorf(shared.KindConfig, "the engine sees no device %s", name)
	}
	if found, _ := filepath.Glob(filepath.Join(e.dir, "libggml-cuda*")); len(found) == 0 {
		return "", 0, shared.Errorf(shared.KindEngineMissing, "the engine library in %s has no CUDA backend; run `firstframe engine install --device cuda`", e.dir)
	}
	why := ""
	if e.refused != "" {
		why = " (" + e.refused + ")"
	}
	return "", 0, shared.Errorf(shared.KindEngineMissing, "the CUDA backend in %s could not be loaded%s; it needs CUDA's runtime libraries, libcudart and libcublas, of version 13 or 12: install them, or name their folder in LD_LIBRARY_PATH", e.dir, why)
}

// cudaTrouble picks out of a log why a CUDA backend was not loaded.
func cudaTrouble(said logged) string {
	for line := range strings.Lines(said.text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "failed to load") && strings.Contains(line, "cuda") {
			return line
		}
	}
	return ""
}

// inHost says whether a buffer of that name lies in host memory although the model
// is on a device. On the CPU all are the device's.
func (m *Model) inHost(where string) bool { return m.device != "" && where != m.device }
