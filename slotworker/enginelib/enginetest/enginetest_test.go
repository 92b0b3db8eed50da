package enginetest_test

import (
	"testing"

	"github.com/firstframe/firstframe/slotworker/enginelib"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
)

func TestDirHoldsTheEngine(t *testing.T) {
	if err := enginelib.Verify(enginetest.Dir(t)); err != nil {
		t.Fatal(err)
	}
}
