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

	// Of the C library, whose streams the engine reads.
	fmemopen func(data unsafe.Pointer, size uintptr, mode string) uintptr
	fclose   func(file uintptr) int32
}

// loadVersion opens the libraries, dependencies first, and prepares the one
// function that has to be asked before any other may be called.
func (n *native) loadVersion(dir string) (loader.Lib, error) {
	var lib loader.Lib
	var err error
	for _, name := range []string{"ggml-base", "ggml", "llama"} {
		if lib, err = loader.LoadLibrary(dir, name); err != nil {
			return lib, err
		}
	}
	n.version, err = lib.Prep("llama_version", &ffi.TypePointer)
	return lib, err
}

// load prepares the rest.
func (n *native) load(lib loader.Lib) error {
	pointer := &ffi.TypePointer
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
// The library can also build a model from tensors that it is handed one by one,
// but then it never repacks them, which would make the same model slower and give
// it other numbers than when it is loaded from a file.
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
