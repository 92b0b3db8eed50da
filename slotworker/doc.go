// Package slotworker is the worker side of one model slot: it reads a model
// into a host buffer, proves what it read, builds the device buffers and runs
// requests on them.
//
// # Goroutines
//
//   - The owner holds the slot's state (state.go). It never blocks: long work
//     runs in the goroutine of the call that ordered it, between a begin and an
//     end that the owner grants.
//   - The scheduler (scheduler.go) is locked to one OS thread and is the only
//     user of the engine's context. It lives from activation to eviction.
//   - Each call of the Worker interface runs in its caller's goroutine.
//
// Describe, Heartbeat and Status read mirrors that only the owner and the
// scheduler write, so they answer at once whatever the engine does.
package slotworker
