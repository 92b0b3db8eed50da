// Package leak finds goroutines that outlive the tests that started them.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. goleak alone gives them half a
// second, in which one on a busy machine may not even have had its turn.
const patience = 20 * time.Second

// Main runs the tests of a package and gives the exit code: goroutines that are
// left after tests that passed are a failure.
func Main(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := find(patience, options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// None wants nothing to be left that the options do not leave out.
func None(t testing.TB, options ...goleak.Option) {
	t.Helper()
	if err := find(patience, options...); err != nil {
		t.Error(err)
	}
}

func find(limit time.Duration, options ...goleak.Option) error {
	for end := time.Now().Add(limit); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
