package llamacpp

import (
	"runtime"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/jupiterrider/ffi"

	"github.com/firstframe/firstframe/shared"
)

// tensorSource hands the library the weights of a model one tensor at a time,
// straight out of the host buffer: when that is page-locked, the device fetches
// them from there without a copy in between.
type tensorSource struct {
	native  *native
	loading *loading
	data    []byte
	header  uintptr // gguf_context of data
	begin   uint64  // of the weights in data
	done    int64
	err     error
}

// loadTensors builds a model of the file in data; 0 when it fails.
func (e *Engine) loadTensors(data []byte, params llama.ModelParams, l *loading) (llama.Model, error) {
	s := &tensorSource{native: &e.native, loading: l, data: data}
	n, from, size := s.native, unsafe.SliceData(data), uint64(len(data))
	layout := struct {
		noAlloc uint8
		context uintptr
	}{noAlloc: 1}
	n.parse.Call(&s.header, &from, &size, &layout)
	if s.header == 0 {
		return 0, shared.Errorf(shared.KindModelFile, "the engine cannot read the model's header")
	}
	defer n.forget.Call(nil, &s.header)
	var begin ffi.Arg
	n.dataAt.Call(&begin, &s.header)
	s.begin = uint64(begin)
	e.tensors = s
	defer func() { e.tensors = nil }()
	var model llama.Model
	var unused uintptr
	n.fromUser.Call(&model, &s.header, &e.onTensor, &unused, &params)
	runtime.KeepAlive(data)
	return model, s.err
}

// give fills one tensor. It is called by the library on the loading thread, which
// cannot be told to stop: after an error, or when the load was given up, the rest
// is left as it is.
func (s *tensorSource) give(tensor uintptr) {
	if s.err != nil || s.loading.stopped {
		return
	}
	n := s.native
	var name *byte
	var id int64
	var at, size ffi.Arg
	n.tensorName.Call(&name, &tensor)
	n.find.Call(&id, &s.header, &name)
	n.tensorSize.Call(&size, &tensor)
	if id >= 0 {
		n.tensorAt.Call(&at, &s.header, &id)
	}
	begin, bytes := s.begin+uint64(at), uint64(size)
	if end := begin + bytes; id < 0 || end < begin || end > uint64(len(s.data)) {
		s.err = shared.Errorf(shared.KindModelFile, "the engine asks for a tensor that the file does not have")
		return
	}
	if bytes > 0 {
		from, offset := unsafe.Pointer(&s.data[begin]), uint64(0)
		n.fill.Call(nil, &tensor, &from, &offset, &bytes)
	}
	s.done += int64(bytes)
	s.loading.progress(float32(s.done) / float32(len(s.data)))
}
