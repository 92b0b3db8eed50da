// Package cuda is a slot's device when that is a CUDA GPU. Everything but this
// file is built with the tag cuda only; `scripts/cuda.sh` says how. A program with
// it in does not start without the driver's library, and ends before its main
// function when the driver finds no device.
//
// One goroutine, locked to its thread, has the device's context and makes every
// call; the others send it functions and wait. The context is the device's primary
// one, which the engine uses as well: a second one would cost some hundred
// megabytes of the device's memory. That is why cu.Ctx does not serve here: it
// destroys the context that it is given, which nobody may do to a primary one.
//
// A device that was lost stays lost: the error that said so first is remembered,
// and all that needs the device fails with slotworker.ErrDeviceLost from then on.
// Memory that is given back is offered to the driver all the same, and counts as
// freed only when the driver takes it.
package cuda
