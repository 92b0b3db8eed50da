package llamacpp

import (
	"runtime"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Load builds a model: a file is mapped and read in place, bytes are copied out
// of the caller's buffer. On the CPU, types that the backend has a better layout
// for are repacked into memory of their own either way.
func (e *Engine) Load(req slotworker.LoadRequest) (slotworker.Model, error) {
	switch {
	case (req.Path == "") == (len(req.Bytes) == 0):
		return nil, shared.Errorf(shared.KindInvalid, "a model is loaded from either a path or a buffer")
	case strings.IndexByte(req.Path+strings.Join(req.MoreParts, ""), 0) >= 0:
		return nil, shared.Errorf(shared.KindInvalid, "the model's path has a zero byte in it")
	case len(req.MoreParts) > 0 && req.Path == "":
		return nil, shared.Errorf(shared.KindInvalid, "parts of a model are loaded from paths only")
	}
	name, device, err := e.findDevice(req.Device)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &loading{report: req.Progress}
	e.loading = l
	defer func() { e.loading = nil }()

	params := llama.ModelDefaultParams()
	devices := []llama.GGMLBackendDevice{device, 0}
	defer runtime.KeepAlive(&devices[0]) // the library reads them while it loads
	if device == 0 {
		params.SetCPUOnly()
	} else if err = params.SetDevices(devices); err != nil {
		return nil, shared.Errorf(shared.KindEngine, "cannot name device %s to the engine: %w", req.Device, err)
	}
	if device != 0 && req.GPULayers > 0 {
		params.NGpuLayers = int32(req.GPULayers) // all, without it
	}
	params.CheckTensors = 0
	params.UseExtraBufts = 1
	params.ProgressCallback = e.onProgress
	m := &Model{engine: e, device: name}
	said := e.log.during(func() {
		if req.Path != "" {
			params.LoadMode = llama.LoadModeMmap
			if len(req.MoreParts) > 0 {
				m.handle, err = llama.ModelLoadFromSplits(append([]string{req.Path}, req.MoreParts...), params)
				return
			}
			m.handle, err = llama.ModelLoadFromFile(req.Path, params)
			return
		}
		params.LoadMode = llama.LoadModeNone
		params.LazyMode = llama.LazyModeOff // memory has no file that rows could be read from later
		if device != 0 {
			m.handle, err = e.loadTensors(req.Bytes, params, l)
			return
		}
		m.handle = e.native.loadFromBytes(req.Bytes, params)
	})
	if err = l.failure(m.handle, err, said); err == nil {
		err = m.read(said)
	}
	if err == nil {
		err = m.adapt(req.Adapters)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// loading is the state of one Load.
type loading struct {
	report  func(float32) bool
	stopped bool
}

// progress is called by the library on the loading thread; false ends the load.
func (l *loading) progress(done float32) bool {
	if l.report != nil && !l.stopped {
		l.stopped = !l.report(min(done, 1))
	}
	return !l.stopped
}

// failure turns what happened into one error.
func (l *loading) failure(handle llama.Model, err error, said logged) error {
	switch {
	case l.stopped:
		return shared.Errorf(shared.KindCancelled, "loading the model was cancelled")
	case handle != 0 && err == nil:
		return nil
	case handle != 0:
		return err
	case err != nil && said.problems == "":
		return shared.Errorf(shared.KindModelFile, "cannot load the model: %w", err)
	case said.outOfMemory():
		return shared.Errorf(shared.KindUnavailable, "cannot load the model: %s", said.reason())
	default:
		return shared.Errorf(shared.KindModelFile, "cannot load the model: %s", said.reason())
	}
}
