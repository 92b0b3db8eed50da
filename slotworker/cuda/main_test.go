//go:build cuda

package cuda

import (
	"fmt"
	"os"
	"testing"

	"github.com/ebitengine/purego"
	"go.uber.org/goleak"
)

// standin reaches the stand-in for the driver that the tests run with, the library
// of testdata/cuda.
type standin struct {
	set   func(name string, value int64) int32
	count func(name string) int64
	reset func()
}

var driver standin

func TestMain(m *testing.M) {
	library, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW)
	if err == nil {
		_, err = purego.Dlsym(library, "standin_reset")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests take the stand-in for the driver: run them with scripts/cuda.sh test:", err)
		os.Exit(1)
	}
	purego.RegisterLibFunc(&driver.set, library, "standin_set")
	purego.RegisterLibFunc(&driver.count, library, "standin_count")
	purego.RegisterLibFunc(&driver.reset, library, "standin_reset")
	goleak.VerifyTestMain(m)
}

// turn sets a switch of the stand-in.
func turn(t testing.TB, name string, value int64) {
	t.Helper()
	if driver.set(name, value) != 1 {
		t.Fatalf("the stand-in has no switch %s", name)
	}
}

// counts wants what the stand-in counted.
func counts(t testing.TB, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got := driver.count(name); got != n {
			t.Errorf("the driver counts %s as %d, not %d", name, got, n)
		}
	}
}

// nothing is what a driver has when everything was given back, rightly.
var nothing = map[string]int64{
	"live_device": 0, "live_host": 0, "live_registered": 0,
	"bytes_device": 0, "bytes_host": 0, "bytes_registered": 0,
	"live_contexts": 0, "live_streams": 0, "live_events": 0,
	"bad_frees": 0, "out_of_bounds": 0, "without_context": 0, "not_portable": 0,
}

// opened is cuda:0 of a new driver, which has to be given back whole unless the
// test closes the device itself.
func opened(t *testing.T) *device {
	t.Helper()
	driver.reset()
	d, err := open("cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	d.sizes = []int64{4 << 10, 64 << 10}
	t.Cleanup(func() {
		select {
		case <-d.done:
			return
		default:
		}
		if err := d.Close(); err != nil {
			t.Errorf("cannot close: %v", err)
		}
		counts(t, nothing)
	})
	return d
}
