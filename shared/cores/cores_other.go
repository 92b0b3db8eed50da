//go:build !linux

package cores

// physical is 0: the number is not known here.
func physical() int { return 0 }
