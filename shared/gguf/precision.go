package gguf

// fileTypeGuessed marks a file type that the writer only assumed.
const fileTypeGuessed = 1024

// Precision is the name of the file's type, such as Q8_0 or Q4_K_M. Without
// one that is known it is the tensor type that most weight bytes have.
func (f *File) Precision() string {
	if n, ok := f.Int("general.file_type"); ok {
		if name, known := fileTypeName(n &^ fileTypeGuessed); known {
			return name
		}
	}
	byType := make(map[TensorType]int64)
	for _, t := range f.tensors {
		byType[t.Type] += t.Bytes
	}
	most := f.tensors[0].Type
	for t, n := range byType {
		if n > byType[most] || n == byType[most] && t < most {
			most = t
		}
	}
	return most.String()
}
