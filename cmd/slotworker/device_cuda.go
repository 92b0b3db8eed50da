//go:build cuda

package main

import (
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/cuda"
)

func deviceOpener() func(name string) (slotworker.Device, error) { return cuda.Open }
