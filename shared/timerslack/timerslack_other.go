//go:build !linux

package timerslack

// Enter does nothing: only Linux lets a process choose.
func Enter() {}
