package llamacpp

import (
	"fmt"
	"os"
	"testing"

	"github.com/firstframe/firstframe/slotworker"
)

// The worker names an open file, so that what it checked is what is loaded.
func TestLoadThroughAnOpenFile(t *testing.T) {
	f, err := os.Open(modelPath("q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := load(t, slotworker.LoadRequest{Path: fmt.Sprintf("/proc/self/fd/%d", f.Fd())})
	if m.Info().Layers != 4 {
		t.Errorf("%+v", m.Info())
	}
}
