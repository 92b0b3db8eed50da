//go:build !cuda

package main

import "github.com/firstframe/firstframe/slotworker"

// deviceOpener has nothing to give: this build computes on the CPU only.
func deviceOpener() func(name string) (slotworker.Device, error) { return nil }
