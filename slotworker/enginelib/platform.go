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

// pin is the one package that is trusted for a platform.
type pin struct {
	Package   string // name of the npm package
	Version   string // its version
	Integrity string // sha512 of its tarball, in the notation of npm
	Dir       string // folder of the libraries inside the tarball
	Files     string // fingerprint of the installed files, see fingerprint
}

// spec is the package as npm wants it named.
func (p pin) spec() string { return p.Package + "@" + p.Version }

// pinFor is the pinned package of a platform. There is none for platforms whose
// package was not published under the pinned version.
func pinFor(goos, goarch string) (pin, bool) {
	switch goos + "/" + goarch {
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
	default:
		return pin{}, false
	}
}

// Dir is where the engine is expected and installed: the directory named in the
// environment, else one in the user's cache.
func Dir() (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("cannot use %s: %w", EnvDir, err)
		}
		return abs, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", shared.Errorf(shared.KindEngineMissing, "cannot find a cache directory for the engine library, set %s: %w", EnvDir, err)
	}
	name := fmt.Sprintf("llama.cpp-%s-%s-%s", shared.EngineVersion, runtime.GOOS, runtime.GOARCH)
	return filepath.Join(cache, "firstframe", "engine", name), nil
}
