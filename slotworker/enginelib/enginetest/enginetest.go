// Package enginetest gives tests the engine library.
package enginetest

import (
	"testing"

	"github.com/firstframe/firstframe/slotworker/enginelib"
)

// Dir is the engine's directory, installed as the product installs it when it is
// not there yet.
func Dir(t testing.TB) string {
	t.Helper()
	if dir, err := enginelib.Locate(t.Context()); err == nil {
		return dir
	}
	result, err := enginelib.Install(t.Context(), enginelib.Options{Log: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	return result.Dir
}
