package gguf

import "github.com/firstframe/firstframe/shared"

// The engine wants data at addresses that are multiples of 32 and aborts on a
// file that says less.
const (
	defaultAlignment = 32
	maxAlignment     = 1 << 20
)

// checkMetadata checks the keys that this project or the engine relies on. It
// runs before the tensor table is read, so the message of a file that is no
// model at all says so.
func (f *File) checkMetadata() error {
	for _, check := range []func() error{
		f.checkKind, f.checkAlignment, f.checkFileType, f.checkArchitecture, f.checkTokenizer, f.checkGeometry,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkKind refuses files that hold only a part of a model or none.
func (f *File) checkKind() error {
	if err := f.checkFirst(); err != nil {
		return err
	}
	if _, ok := f.values["general.type"]; ok {
		if kind := f.String("general.type"); kind != "model" {
			return wrong("general.type", "the file holds %q and not a model", clip(kind))
		}
	}
	return nil
}

func (f *File) checkAlignment() error {
	const key = "general.alignment"
	f.alignment = defaultAlignment
	v, ok := f.values[key]
	if !ok {
		return nil
	}
	n, _ := f.Uint(key)
	switch {
	case v.typ != Uint32:
		return wrong(key, "%s instead of uint32", v.typ)
	case n&(n-1) != 0 || n < defaultAlignment || n > maxAlignment:
		return wrong(key, "the alignment %d is not a power of two from %d to %d", n, defaultAlignment, maxAlignment)
	}
	f.alignment = int64(n)
	return nil
}

func (f *File) checkFileType() error {
	const key = "general.file_type"
	if v, ok := f.values[key]; ok && v.typ != Uint32 {
		return wrong(key, "%s instead of uint32", v.typ)
	}
	return nil
}

func (f *File) checkArchitecture() error {
	const key = "general.architecture"
	v, ok := f.values[key]
	switch {
	case !ok:
		return wrong(key, "missing: the file does not say what kind of model it is")
	case v.typ != String:
		return wrong(key, "%s instead of a string", v.typ)
	}
	arch := f.Architecture()
	switch memoryOf(arch) {
	case memoryUnknown:
		return wrong(key, "the architecture %q is unknown to engine %s", clip(arch), shared.EngineVersion)
	case memoryNoText:
		return wrong(key, "a model of architecture %q does not continue text and cannot be served", arch)
	}
	return nil
}

// clip keeps text from a file short in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
