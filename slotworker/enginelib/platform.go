package enginelib

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/firstframe/firstframe/shared"
)

// EnvDir names an explicit engine directory; it wins over every other place.
const EnvDir = "FIRSTFRAME_ENGINE_DIR"

// EnvCUDADir is the same for the engine with CUDA.
const EnvCUDADir = "FIRSTFRAME_CUDA_ENGINE_DIR"

// Device is what an engine can compute on beside the CPU.
type Device string

// The devices.
const (
	CPU  Device = ""
	CUDA Device = "cuda"
)

// environment is the variable that names the engine's directory.
func (d Device) environment() string {
	if d == CUDA {
		return EnvCUDADir
	}
	return EnvDir
}

// command installs the engine.
func (d Device) command() string {
	if d == CUDA {
		return "firstframe engine install --device cuda"
	}
	return "firstframe engine install"
}

// pin is the one package that is trusted for a platform.
type pin struct {
	Package   string // name of the npm package
	Version   string // its version
	Integrity string // sha512 of its tarball, in the notation of npm
	Dir       string // folder of the libraries inside the tarball
	Files     string // fingerprint of the installed files, see fingerprint
	// Also is a package whose one library comes along, under the name As.
	Also *pin
	As   string
}

// spec is the package as npm wants it named.
func (p pin) spec() string { return p.Package + "@" + p.Version }

// source names all packages.
func (p pin) source() string {
	if p.Also != nil {
		return p.spec() + " and " + p.Also.spec()
	}
	return p.spec()
}

// pinFor is the pinned package of a platform. There is none for platforms whose
// package was not published under the pinned version.
func pinFor(goos, goarch string, device Device) (pin, bool) {
	platform := goos + "/" + goarch
	if device != CPU {
		platform += "/" + string(device)
	}
	switch platform {
	case "linux/amd64":
		return pin{
			Package:   "@node-llama-cpp/linux-x64",
			Version:   "3.22.1",
			Integrity: "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==",
			Dir:       "package/bins/linux-x64",
			Files:     "c4d2ecaa0d7675f519d7f4e3e5d02b7a6ce2b81b5e77542c1046c5cd948273b2",
		}, true
	case "linux/arm64":
		return pin{
			Package:   "@node-llama-cpp/linux-arm64",
			Version:   "3.22.1",
			Integrity: "sha512-W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ==",
			Dir:       "package/bins/linux-arm64",
			Files:     "03615af20c9563cce71ed68f96b30b1fc524906efc23f87bbf51ba663a0f16f6",
		}, true
	case "linux/amd64/cuda":
		return pin{
			Package:   "@node-llama-cpp/linux-x64-cuda",
			Version:   "3.22.1",
			Integrity: "sha512-8rQCjyNNLZJUFit+YpjwlC4hwkKgOMIkB2wuycKBf8NU2O3ySKbiWZQ8aw9ku2nUTXjSnUIrE6KB88itduTBuA==",
			Dir:       "package/bins/linux-x64-cuda",
			Files:     "040d8afa8b99092438a9ace9af1af7b5b5cfe6039e2181b0f4241c85c540743e",
			Also: &pin{
				Package:   "@node-llama-cpp/linux-x64-cuda-ext",
				Version:   "3.22.1",
				Integrity: "sha512-4e5ajkiM2aR2WAdB/N/ACk4weEhHvOAIrzxZPsIX0xDFW5+6hhShuy1/vs88SK9NGdgAco9IyE28eYS0H1efpA==",
				Dir:       "package/bins/linux-x64-cuda/fallback",
				As:        secondCUDA,
			},
		}, true
	default:
		return pin{}, false
	}
}

// Dir is where the engine for a device is expected and installed: the directory
// named in the environment, else one in the user's cache.
func Dir(device Device) (string, error) {
	env := device.environment()
	if dir := os.Getenv(env); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("cannot use %s: %w", env, err)
		}
		return abs, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", shared.Errorf(shared.KindEngineMissing, "cannot find a cache directory for the engine library, set %s: %w", env, err)
	}
	name := fmt.Sprintf("llama.cpp-%s-%s-%s", shared.EngineVersion, runtime.GOOS, runtime.GOARCH)
	if device != CPU {
		name += "-" + string(device)
	}
	return filepath.Join(cache, "firstframe", "engine", name), nil
}
