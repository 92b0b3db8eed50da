//go:build !linux

package main

// systemChecks has nothing to say on systems other than Linux.
func systemChecks() []check { return nil }
