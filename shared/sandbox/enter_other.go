//go:build !linux

package sandbox

import (
	"errors"
	"runtime"
)

// Enter confines nothing on this system, and says so.
func Enter(Policy) Report {
	return Report{Missing: []string{"anything (not supported on " + runtime.GOOS + ")"}, Open: everything()}
}

// Landlock is Linux's.
func Landlock() (abi int, err error) { return 0, errors.New("not supported on " + runtime.GOOS) }
