package pages

import (
	"os"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
)

// TestMain also serves as the process that a crash test starts and kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		storeUntilKilled(dir)
	}
	os.Exit(leak.Main(m))
}
