// Package supervisor declares model slots, starts one worker process for each,
// and sends every request to the one slot group whose identity it names. A slot
// belongs to one owner goroutine, which alone changes its state; what it should
// do next is decided by a pure step function and done elsewhere, so that an
// owner never waits for a worker, a file or another slot.
package supervisor
