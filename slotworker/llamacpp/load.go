package llamacpp

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/utils"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
)

// Load builds a model: a file is mapped and read in place, bytes are copied out
// of the caller's buffer. Either way, types that the CPU backend has a better
// layout for are repacked into memory of their own.
func (e *Engine) Load(req slotworker.LoadRequest) (slotworker.Model, error) {
	switch {
	case (req.Path == "") == (len(req.Bytes) == 0):
		return nil, shared.Errorf(shared.KindInvalid, "a model is loaded from either a path or a buffer")
	case strings.IndexByte(req.Path, 0) >= 0:
		return nil, shared.Errorf(shared.KindInvalid, "the model's path has a zero byte in it")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := &loading{native: &e.native, file: req.Bytes, report: req.Progress}
	e.loading = l
	defer func() { e.loading = nil }()

	params := llama.ModelDefaultParams()
	params.SetCPUOnly()
	params.CheckTensors = 0
	params.UseExtraBufts = 1
	params.ProgressCallback = e.onProgress
	var handle llama.Model
	var err error
	said := e.log.during(func() {
		if req.Path != "" {
			params.LoadMode = llama.LoadModeMmap
			handle, err = llama.ModelLoadFromFile(req.Path, params)
		} else {
			params.LoadMode = llama.LoadModeNone
			handle, err = l.build(e.onTensor, params)
		}
	})
	runtime.KeepAlive(req.Bytes)
	m := &Model{engine: e, handle: handle}
	if err = l.failure(err, handle, said); err == nil {
		err = m.read(said)
	}
	if err == nil && m.info.WeightBytes == 0 {
		// The library counts only what it read from files.
		m.info.WeightBytes = int64(l.done)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// loading is the state of one Load; its methods are called by the library on the
// loading thread.
type loading struct {
	native  *native
	file    []byte
	header  uintptr
	begin   uint64 // where tensor data begins in file
	done    uint64
	report  func(float32) bool
	stopped bool
	err     error
}

// build makes the model from the buffer.
func (l *loading) build(callback uintptr, params llama.ModelParams) (llama.Model, error) {
	l.header = l.native.openHeader(l.file)
	if l.header == 0 {
		return 0, fmt.Errorf("the header is damaged")
	}
	defer l.native.closeHeader(l.header)
	l.begin = l.native.dataOffset(l.header)
	if l.begin > uint64(len(l.file)) {
		return 0, fmt.Errorf("the file ends inside its header")
	}
	return l.native.build(l.header, callback, params), l.err
}

// tensor fills one tensor. The library cannot be told to stop here, so after an
// error the remaining ones are skipped and the model is thrown away.
func (l *loading) tensor(tensor uintptr) {
	if l.stopped || l.err != nil {
		return
	}
	name := l.native.name(tensor)
	offset, size, ok := l.native.find(l.header, name)
	data := l.file[l.begin:]
	switch {
	case !ok:
		l.err = fmt.Errorf("the file has no tensor %s", utils.BytePtrToString(name))
		return
	case size != l.native.bytes(tensor) || offset > uint64(len(data)) || size > uint64(len(data))-offset:
		l.err = fmt.Errorf("the data of tensor %s is cut off", utils.BytePtrToString(name))
		return
	}
	l.native.set(tensor, data[offset:offset+size])
	l.done += size
	l.progress(float32(l.done) / float32(len(data)))
}

// progress tells the caller and remembers when it wants to stop.
func (l *loading) progress(done float32) bool {
	if l.report != nil && !l.stopped {
		l.stopped = !l.report(min(done, 1))
	}
	return !l.stopped
}

// failure turns what happened into one error.
func (l *loading) failure(err error, handle llama.Model, said logged) error {
	switch {
	case l.stopped:
		return shared.Errorf(shared.KindCancelled, "loading the model was cancelled")
	case l.err != nil:
		return shared.Errorf(shared.KindModelFile, "cannot load the model: %w", l.err)
	case err != nil || handle == 0:
		text := said.reason()
		if said.problems == "" && err != nil {
			text = err.Error()
		}
		return shared.Errorf(shared.KindModelFile, "cannot load the model: %s", text)
	default:
		return nil
	}
}
