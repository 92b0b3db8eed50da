//go:build !linux

package main

// fillDisk is nil: only Linux changes the limits of another process.
func fillDisk() func(pid int) (func() error, error) { return nil }
