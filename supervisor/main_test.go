package supervisor

import (
	"os"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
)

func TestMain(m *testing.M) {
	runAsTestProcess(os.Args)
	os.Exit(leak.Main(m))
}
