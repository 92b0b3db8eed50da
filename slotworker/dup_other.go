//go:build !linux

package slotworker

import "golang.org/x/sys/unix"

// dupTo makes to the same file as from.
func dupTo(from, to int) error { return unix.Dup2(from, to) }
