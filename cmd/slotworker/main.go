// Command slotworker is the worker process of one model slot as a program of its
// own. `firstframe` contains the same worker and starts itself; this one is for
// builds whose worker needs other libraries than the supervisor.
package main

import (
	"context"
	"os"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/sandbox"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
)

func main() {
	os.Exit(slotworker.Main(context.Background(), slotworker.MainConfig{
		Args:       os.Args[1:],
		OpenEngine: func(dir string) (slotworker.Engine, error) { return llamacpp.Open(dir) },
		OpenDevice: deviceOpener(),
		Version:    shared.BuildVersion(),
		Confine:    sandbox.Enter,
	}))
}
