package supervisor

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runAsTestProcess(os.Args)
	goleak.VerifyTestMain(m)
}
