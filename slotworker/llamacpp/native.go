package llamacpp

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/hybridgroup/yzma/pkg/utils"
	"github.com/jupiterrider/ffi"
)

// native holds the functions that yzma has no binding for, or, for tokenizing,
// one that does the work twice and stops at zero bytes.
type native struct {
	version  ffi.Fun // const char * llama_version(void)
	fromFile ffi.Fun // llama_model * llama_model_load_from_file_ptr(FILE *, llama_model_params)
	tokenize ffi.Fun // int32_t llama_tokenize(vocab, const char *, int32_t, llama_token *, int32_t, bool, bool)
	fromUser ffi.Fun // llama_model * llama_model_init_from_user(gguf_context *, callback, void *, llama_model_params)

	backend    ffi.Fun // ggml_backend_reg_t ggml_backend_load(const char *)
	parse      ffi.Fun // gguf_context * gguf_init_from_buffer(const void *, size_t, gguf_init_params)
	forget     ffi.Fun // void gguf_free(gguf_context *)
	dataAt     ffi.Fun // size_t gguf_get_data_offset(const gguf_context *)
	tensorAt   ffi.Fun // size_t gguf_get_tensor_offset(const gguf_context *, int64_t)
	find       ffi.Fun // int64_t gguf_find_tensor(const gguf_context *, const char *)
	tensorName ffi.Fun // const char * ggml_get_name(const ggml_tensor *)
	tensorSize ffi.Fun // size_t ggml_nbytes(const ggml_tensor *)
	fill       ffi.Fun // void ggml_backend_tensor_set(ggml_tensor *, const void *, size_t, size_t)

	// Of the C library, whose streams the engine reads.
	fmemopen func(data unsafe.Pointer, size uintptr, mode string) uintptr
	fclose   func(file uintptr) int32
}

// loadVersion opens the libraries, dependencies first, and prepares the one
// function that has to be asked before any other may be called.
func (n *native) loadVersion(dir string) (libs [3]loader.Lib, err error) {
	for i, name := range []string{"ggml-base", "ggml", "llama"} {
		if libs[i], err = loader.LoadLibrary(dir, name); err != nil {
			return libs, err
		}
	}
	n.version, err = libs[2].Prep("llama_version", &ffi.TypePointer)
	return libs, err
}

// load prepares the rest.
func (n *native) load(libs [3]loader.Lib) error {
	base, ggml, lib := libs[0], libs[1], libs[2]
	pointer, size := &ffi.TypePointer, &ffi.TypeUint64
	modelParams := ffi.NewType(pointer, pointer,
		&ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32, &ffi.TypeSint32,
		pointer, pointer, pointer, pointer,
		&ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8, &ffi.TypeUint8)
	var err error
	if n.fromFile, err = lib.Prep("llama_model_load_from_file_ptr", pointer, pointer, &modelParams); err != nil {
		return err
	}
	if n.tokenize, err = lib.Prep("llama_tokenize", &ffi.TypeSint32,
		pointer, pointer, &ffi.TypeSint32, pointer, &ffi.TypeSint32, &ffi.TypeUint8, &ffi.TypeUint8); err != nil {
		return err
	}
	parseParams := ffi.NewType(&ffi.TypeUint8, pointer) // no_alloc, ctx
	for _, f := range []struct {
		to   *ffi.Fun
		lib  loader.Lib
		name string
		ret  *ffi.Type
		args []*ffi.Type
	}{
		{&n.fromUser, lib, "llama_model_init_from_user", pointer, []*ffi.Type{pointer, pointer, pointer, &modelParams}},
		{&n.backend, ggml, "ggml_backend_load", pointer, []*ffi.Type{pointer}},
		{&n.parse, base, "gguf_init_from_buffer", pointer, []*ffi.Type{pointer, size, &parseParams}},
		{&n.forget, base, "gguf_free", &ffi.TypeVoid, []*ffi.Type{pointer}},
		{&n.dataAt, base, "gguf_get_data_offset", size, []*ffi.Type{pointer}},
		{&n.tensorAt, base, "gguf_get_tensor_offset", size, []*ffi.Type{pointer, &ffi.TypeSint64}},
		{&n.find, base, "gguf_find_tensor", &ffi.TypeSint64, []*ffi.Type{pointer, pointer}},
		{&n.tensorName, base, "ggml_get_name", pointer, []*ffi.Type{pointer}},
		{&n.tensorSize, base, "ggml_nbytes", size, []*ffi.Type{pointer}},
		{&n.fill, base, "ggml_backend_tensor_set", &ffi.TypeVoid, []*ffi.Type{pointer, pointer, size, size}},
	} {
		if *f.to, err = f.lib.Prep(f.name, f.ret, f.args...); err != nil {
			return err
		}
	}
	for name, function := range map[string]any{"fmemopen": &n.fmemopen, "fclose": &n.fclose} {
		address, err := purego.Dlsym(purego.RTLD_DEFAULT, name)
		if err != nil {
			return fmt.Errorf("no function %s: %w", name, err)
		}
		purego.RegisterFunc(function, address)
	}
	return nil
}

// libraryVersion is what the library says of itself.
func (n *native) libraryVersion() string {
	var text *byte
	n.version.Call(&text)
	return utils.BytePtrToString(text)
}

// loadFromBytes has the library read a model file out of memory as if it were a
// stream; 0 when it fails.
//
// On the CPU it is not built from tensors handed over one by one, as on a GPU: the
// library never repacks those, which would make the same model slower and give it
// other numbers than when it is loaded from a file.
func (n *native) loadFromBytes(data []byte, params llama.ModelParams) llama.Model {
	file := n.fmemopen(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)), "rb")
	if file == 0 {
		return 0
	}
	var model llama.Model
	n.fromFile.Call(&model, &file, &params)
	n.fclose(file)
	runtime.KeepAlive(data)
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
