package enginelib

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
)

// childEnv makes the test binary one of several processes that install at once:
// it holds the arguments of child.
const childEnv = "FIRSTFRAME_TEST_INSTALL"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(child(spec))
	}
	os.Exit(leak.Main(m))
}

// child installs from a stand-in for npm and prints whether it found the work done.
func child(spec string) int {
	var dir, npm, integrity, files string
	if _, err := fmt.Sscan(spec, &dir, &npm, &integrity, &files); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	in := &installer{
		dir: dir, npm: npm, pinned: true,
		pin:      pin{Package: "fake", Version: "1", Integrity: integrity, Files: files, Dir: fakeFolder},
		progress: func(Progress) {}, log: func(string) {},
	}
	result, err := in.install(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("reused=%v", result.Reused)
	return 0
}
