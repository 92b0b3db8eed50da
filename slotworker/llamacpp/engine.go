package llamacpp

import (
	"path/filepath"
	"sync"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Engine is the loaded library. A process has one.
type Engine struct {
	info   slotworker.EngineInfo
	dir    string
	native native
	// refused is why the CUDA backend of the folder was not loaded.
	refused string
	log     *logTap

	// One thing is loaded or built at a time: the library's log and the callback
	// below are shared by all.
	mu         sync.Mutex
	loading    *loading
	tensors    *tensorSource
	onProgress uintptr
	onTensor   uintptr
}

var _ slotworker.Engine = (*Engine)(nil)

// Open loads the engine library from a directory, as enginelib installs it, and
// refuses any version but the one that this build was made for. It is called at
// most once in a process, and nothing can be unloaded again.
func Open(dir string) (*Engine, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, shared.Errorf(shared.KindEngineMissing, "cannot load the engine library: %w", err)
	}
	e := &Engine{dir: dir}
	libs, err := e.native.loadVersion(dir)
	if err != nil {
		return nil, shared.Errorf(shared.KindEngineMissing, "cannot load version %s of the engine library from %s: %w", shared.EngineVersion, dir, err)
	}
	version := e.native.libraryVersion()
	if !fits(version, shared.EngineVersion) {
		return nil, shared.Errorf(shared.KindEngineMissing, "the engine library in %s is version %s, but this build needs %s; run `firstframe engine install`", dir, version, shared.EngineVersion)
	}
	if err := e.native.load(libs); err != nil {
		return nil, shared.Errorf(shared.KindEngineMissing, "the engine library in %s is damaged: %w", dir, err)
	}
	if err := llama.Load(dir); err != nil {
		return nil, shared.Errorf(shared.KindEngineMissing, "the engine library in %s is damaged: %w", dir, err)
	}
	if err := checkLayout(); err != nil {
		return nil, err
	}
	e.log = newLogTap()
	e.onProgress = purego.NewCallback(func(done float32, _ uintptr) bool {
		return e.loading.progress(done)
	})
	e.onTensor = purego.NewCallback(func(tensor, _ uintptr) uintptr {
		e.tensors.give(tensor)
		return 0
	})
	var loadErr error
	said := e.log.during(func() {
		llama.BackendInit()
		loadErr = llama.GGMLBackendLoadAllFromPath(dir)
		e.loadSecondCUDA()
	})
	e.refused = cudaTrouble(said)
	if loadErr != nil || llama.GGMLBackendDeviceByType(llama.GGMLBackendDeviceTypeCPU) == 0 {
		return nil, shared.Errorf(shared.KindEngineMissing, "the engine library in %s has no backend for this CPU: %s", dir, said.reason())
	}
	e.info = slotworker.EngineInfo{Version: version, CPUVariant: said.variant()}
	return e, nil
}

// Info says which library was loaded.
func (e *Engine) Info() slotworker.EngineInfo { return e.info }
