package pages

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also serves as the process that a crash test starts and kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirEnv); dir != "" {
		storeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}
