package llamacpp

import (
	"fmt"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/hybridgroup/yzma/pkg/utils"
	"github.com/jupiterrider/ffi"
)

// native holds the library's functions that yzma has no binding for, or, for
// tokenizing, one that does the work twice and stops at zero bytes.
type native struct {
	version ffi.Fun // const char * llama_version(void)

	ggufInit   ffi.Fun // gguf_context * gguf_init_from_buffer(const void *, size_t, gguf_init_params)
	ggufFree   ffi.Fun // void gguf_free(gguf_context *)
	ggufFind   ffi.Fun // int64_t gguf_find_tensor(const gguf_context *, const char *)
	ggufData   ffi.Fun // size_t gguf_get_data_offset(const gguf_context *)
	ggufOffset ffi.Fun // size_t gguf_get_tensor_offset(const gguf_context *, int64_t)
	ggufSize   ffi.Fun // size_t gguf_get_tensor_size(const gguf_context *, int64_t)

	tokenize ffi.Fun // int32_t llama_tokenize(vocab, const char *, int32_t, llama_token *, int32_t, bool, bool)

	initFromUser ffi.Fun // llama_model * llama_model_init_from_user(gguf_context *, callback, void *, llama_model_params)
	tensorName   ffi.Fun // const char * ggml_get_name(const ggml_tensor *)
	tensorBytes  ffi.Fun // size_t ggml_nbytes(const ggml_tensor *)
	tensorSet    ffi.Fun // void ggml_backend_tensor_set(ggml_tensor *, const void *, size_t offset, size_t size)
}

// ggufInitParams mirrors struct gguf_init_params.
type ggufInitParams struct {
	noAlloc uint8
	ctx     unsafe.Pointer
}

// loadVersion opens the libraries, dependencies first, and prepares the one
// function that has to be asked before any other may be called.
func (n *native) loadVersion(dir string) (base, lib loader.Lib, err error) {
	if base, err = loader.LoadLibrary(dir, "ggml-base"); err != nil {
		return base, lib, err
	}
	if _, err = loader.LoadLibrary(dir, "ggml"); err != nil {
		return base, lib, err
	}
	if lib, err = loader.LoadLibrary(dir, "llama"); err != nil {
		return base, lib, err
	}
	n.version, err = lib.Prep("llama_version", &ffi.TypePointer)
	return base, lib, err
}

// load prepares the rest.
func (n *native) load(base, lib loader.Lib) error {
	pointer, size := &ffi.TypePointer, &ffi.TypeUint64
	initParams := ffi.NewType(&ffi.TypeUint8, pointer)
	modelParams := ffi.NewType(pointer, pointer,
		&ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32,
		pointer, pointer, pointer, pointer,
		&ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8)
	for _, f := range []struct {
		fun  *ffi.Fun
		lib  loader.Lib
		name string
		ret  *ffi.Type
		args []*ffi.Type
	}{
		{&n.ggufInit, base, "gguf_init_from_buffer", pointer, []*ffi.Type{pointer, size, &initParams}},
		{&n.ggufFree, base, "gguf_free", &ffi.TypeVoid, []*ffi.Type{pointer}},
		{&n.ggufFind, base, "gguf_find_tensor", &ffi.TypeSint64, []*ffi.Type{pointer, pointer}},
		{&n.ggufData, base, "gguf_get_data_offset", size, []*ffi.Type{pointer}},
		{&n.ggufOffset, base, "gguf_get_tensor_offset", size, []*ffi.Type{pointer, &ffi.TypeSint64}},
		{&n.ggufSize, base, "gguf_get_tensor_size", size, []*ffi.Type{pointer, &ffi.TypeSint64}},
		{&n.tensorName, base, "ggml_get_name", pointer, []*ffi.Type{pointer}},
		{&n.tensorBytes, base, "ggml_nbytes", size, []*ffi.Type{pointer}},
		{&n.tensorSet, base, "ggml_backend_tensor_set", &ffi.TypeVoid, []*ffi.Type{pointer, pointer, size, size}},
		{&n.tokenize, lib, "llama_tokenize", &ffi.TypeSint32, []*ffi.Type{pointer, pointer, &ffi.TypeSint32, pointer, &ffi.TypeSint32, &ffi.TypeUint8, &ffi.TypeUint8}},
		{&n.initFromUser, lib, "llama_model_init_from_user", pointer, []*ffi.Type{pointer, pointer, pointer, &modelParams}},
	} {
		fun, err := f.lib.Prep(f.name, f.ret, f.args...)
		if err != nil {
			return fmt.Errorf("no function %s: %w", f.name, err)
		}
		*f.fun = fun
	}
	return nil
}

// libraryVersion is what the library says of itself.
func (n *native) libraryVersion() string {
	var text *byte
	n.version.Call(&text)
	return utils.BytePtrToString(text)
}

// openHeader parses a model file's header in memory; 0 when it is refused.
func (n *native) openHeader(file []byte) uintptr {
	var header uintptr
	data, size := unsafe.SliceData(file), uint64(len(file))
	params := ggufInitParams{noAlloc: 1}
	n.ggufInit.Call(&header, &data, &size, &params)
	return header
}

func (n *native) closeHeader(header uintptr) { n.ggufFree.Call(nil, &header) }

// dataOffset is where tensor data begins in the file.
func (n *native) dataOffset(header uintptr) uint64 {
	var offset uint64
	n.ggufData.Call(&offset, &header)
	return offset
}

// find gives a tensor's place after the data offset and its length; ok is false
// when the header does not name the tensor. The name is the engine's own C string.
func (n *native) find(header uintptr, name *byte) (offset, size uint64, ok bool) {
	var id int64
	n.ggufFind.Call(&id, &header, &name)
	if id < 0 {
		return 0, 0, false
	}
	n.ggufOffset.Call(&offset, &header, &id)
	n.ggufSize.Call(&size, &header, &id)
	return offset, size, true
}

func (n *native) name(tensor uintptr) *byte {
	var name *byte
	n.tensorName.Call(&name, &tensor)
	return name
}

func (n *native) bytes(tensor uintptr) uint64 {
	var size uint64
	n.tensorBytes.Call(&size, &tensor)
	return size
}

// set copies data into a tensor in the engine's own layout.
func (n *native) set(tensor uintptr, data []byte) {
	from, offset, size := unsafe.SliceData(data), uint64(0), uint64(len(data))
	n.tensorSet.Call(nil, &tensor, &from, &offset, &size)
}

// build makes a model whose tensors are filled by the callback.
func (n *native) build(header, callback uintptr, params llama.ModelParams) llama.Model {
	var model llama.Model
	var none uintptr
	n.initFromUser.Call(&model, &header, &callback, &none, &params)
	return model
}

// tokenizeInto gives the number of tokens, negative when into is too short.
func (n *native) tokenizeInto(into []int32, vocab llama.Vocab, text string, addSpecial, parseSpecial bool) int {
	var result ffi.Arg
	from, length := unsafe.StringData(text), int32(len(text))
	to, room := unsafe.SliceData(into), int32(len(into))
	n.tokenize.Call(&result, &vocab, &from, &length, &to, &room, &addSpecial, &parseSpecial)
	return int(int32(result))
}
