package gguf

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/firstframe/firstframe/shared"
)

// The keys by which the parts of a split model know their place. The engine
// wants exactly these types.
const (
	keySplitNo      = "split.no"
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

var partName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// Part is one file of a model, or the only one.
type Part struct {
	R    io.ReaderAt
	Size int64
}

// ReadParts reads and checks the headers of a split model, all parts in order.
func ReadParts(parts ...Part) (*File, error) {
	f, count, err := readFirst(parts[0])
	if err != nil {
		return nil, err
	}
	if count > 1 && len(parts) == 1 {
		return nil, misnamed(count)
	}
	if count != len(parts) {
		return nil, wrong(keySplitCount, "the model has %d parts and not %d", count, len(parts))
	}
	return f, f.append(parts[1:])
}

// readFirst reads the first or only part, and of how many there are.
func readFirst(p Part) (*File, int, error) {
	f, err := read(p.R, p.Size, (*File).checkMetadata)
	if err != nil {
		return nil, 0, err
	}
	count := f.splitCount()
	if count == 1 && len(f.tensors) == 0 {
		return nil, 0, shared.Errorf(shared.KindModelFile, "file header at byte 8: the file has no tensors")
	}
	return f, count, nil
}

// splitCount is the number of parts as the first one says it.
func (f *File) splitCount() int {
	n, ok := f.Uint(keySplitCount)
	if !ok || n == 0 {
		return 1
	}
	return int(n)
}

// checkFirst checks the keys of a split on the first part, or on the only file.
func (f *File) checkFirst() error {
	if _, ok := f.values[keySplitCount]; !ok {
		return nil
	}
	count, no, err := f.place()
	switch {
	case err != nil:
		return err
	case count > 1 && no != 0:
		return wrong(keySplitNo, "the file is part %d of %d of a split model; its path names the first part", no+1, count)
	}
	return nil
}

// place reads which part of how many a file is.
func (f *File) place() (count, no int, err error) {
	for _, key := range []string{keySplitCount, keySplitNo} {
		v, ok := f.values[key]
		if key == keySplitNo && !ok && f.splitCount() == 1 {
			return 1, 0, nil
		}
		if !ok {
			return 0, 0, wrong(key, "missing in a split model")
		}
		if v.typ != Uint16 {
			return 0, 0, wrong(key, "%s instead of uint16", v.typ)
		}
	}
	n, _ := f.Uint(keySplitNo)
	return f.splitCount(), int(n), nil
}

// append adds the tensors of further parts.
func (f *File) append(parts []Part) error {
	if len(parts) == 0 {
		return nil
	}
	names := make(map[string]bool, len(f.tensors))
	for _, t := range f.tensors {
		names[t.Name] = true
	}
	for i, p := range parts {
		no := i + 1
		more, err := read(p.R, p.Size, func(part *File) error { return part.checkPart(no, len(parts)+1) })
		if err != nil {
			return inPart(no, len(parts)+1, err)
		}
		f.sizes = append(f.sizes, p.Size)
		f.size += p.Size
		for _, t := range more.tensors {
			if names[t.Name] {
				return inPart(no, len(parts)+1, wrong("", "tensor %q is in an earlier part, too", t.Name))
			}
			names[t.Name] = true
			t.Part = no
			f.tensors = append(f.tensors, t)
		}
	}
	v, ok := f.values[keySplitTensors]
	if want, _ := f.Int(keySplitTensors); !ok || v.typ != Int32 || want == 0 || want != int64(len(f.tensors)) {
		return wrong(keySplitTensors, "the first part speaks of %d tensors, and the parts have %d", want, len(f.tensors))
	}
	return nil
}

// checkPart checks the metadata of a part that is not the first.
func (f *File) checkPart(no, count int) error {
	hasCount, hasNo, err := f.place()
	switch {
	case err != nil:
		return err
	case hasCount != count || hasNo != no:
		return wrong(keySplitNo, "it says that it is part %d of %d", hasNo+1, hasCount)
	}
	return f.checkAlignment()
}

func inPart(no, count int, err error) error {
	e := *shared.AsError(err, "", "")
	e.Message, e.Err = fmt.Sprintf("part %d of %d: %s", no+1, count, e.Text()), nil
	return &e
}

// Parts names the files of the model whose first or only file is given. They
// need not be there.
func Parts(path string) ([]string, error) {
	if !partName.MatchString(filepath.Base(path)) {
		return []string{path}, nil
	}
	file, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	_, count, err := readFirst(Part{file, size})
	if err != nil {
		return nil, shared.AsError(err, "read model file "+path, "")
	}
	return partPaths(path, count)
}

// partPaths names the parts of a model by the first one's name.
func partPaths(path string, count int) ([]string, error) {
	if count == 1 {
		return []string{path}, nil
	}
	dir, base := filepath.Split(path)
	m := partName.FindStringSubmatch(base)
	if m == nil || m[2] != "00001" || m[3] != fmt.Sprintf("%05d", count) {
		return nil, misnamed(count)
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = dir + m[1] + "-" + pad(i+1) + "-of-" + m[3] + ".gguf"
	}
	return paths, nil
}

func misnamed(count int) error {
	return wrong(keySplitCount, "the file is the first of %d parts, so its name has to end in -00001-of-%05d.gguf", count, count)
}

func pad(n int) string {
	s := strconv.Itoa(n)
	return "00000"[:max(5-len(s), 0)] + s
}

// OpenParts opens all files of a model, as Parts names them. Close ends it.
func OpenParts(paths ...string) (*OpenModel, error) {
	m := &OpenModel{Paths: paths}
	for i, p := range paths {
		file, size, err := Open(p)
		if err != nil {
			m.Close()
			if len(paths) > 1 {
				err = MissingPart(p, i, len(paths), err)
			}
			return nil, err
		}
		m.Parts = append(m.Parts, Part{file, size})
		m.Size += size
		m.close = append(m.close, file)
	}
	return m, nil
}

// MissingPart is the error of a part that cannot be opened.
func MissingPart(path string, no, count int, err error) error {
	return &shared.Error{
		Kind:    shared.KindModelFile,
		Message: fmt.Sprintf("part %d of %d of the model cannot be opened, %s: %v", no+1, count, path, err),
	}
}

// OpenModel is the open files of a model.
type OpenModel struct {
	Paths []string
	Parts []Part
	Size  int64 // of all
	close []io.Closer
}

// Reader reads all parts in order, which is what a model's digest covers.
func (m *OpenModel) Reader() io.Reader {
	var all []io.Reader
	for _, p := range m.Parts {
		all = append(all, io.NewSectionReader(p.R, 0, p.Size+1)) // one more tells a file that grew
	}
	return io.MultiReader(all...)
}

// Close closes the files, from which nothing but reading was asked.
func (m *OpenModel) Close() {
	for _, c := range m.close {
		_ = c.Close()
	}
}
