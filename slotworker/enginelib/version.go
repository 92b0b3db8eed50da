package enginelib

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/firstframe/firstframe/shared"
)

// maxLibrary bounds what is read as one library file.
const maxLibrary = 1 << 30

// carriesVersion looks for the engine's version in the bytes of its library: a C
// string that is the version, or the version and a suffix such as -dev. It is a
// filter for what may be offered to a worker, not proof.
func carriesVersion(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("cannot read library: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxLibrary))
	if err != nil {
		return false, fmt.Errorf("cannot read library: %w", err)
	}
	return hasVersion(data), nil
}

func hasVersion(data []byte) bool {
	mark := append([]byte{0}, shared.EngineVersion...)
	for {
		at := bytes.Index(data, mark)
		if at < 0 {
			return false
		}
		data = data[at+len(mark):]
		if len(data) > 0 && (data[0] == 0 || data[0] == '-') {
			return true
		}
	}
}
