package supervisor

import (
	"runtime"

	"github.com/firstframe/firstframe/shared"
)

// forkThread starts all worker processes on one operating system thread. A
// parent-death signal is sent when the thread that forked ends, not the process,
// so this thread has to live for as long as the workers may.
type forkThread struct {
	calls   chan func()
	quit    chan struct{}
	stopped chan struct{}
}

func newForkThread() *forkThread {
	t := &forkThread{calls: make(chan func()), quit: make(chan struct{}), stopped: make(chan struct{})}
	go t.run()
	return t
}

func (t *forkThread) run() {
	// At the end the thread is given back, not ended: in a build without cgo
	// native libraries' destructors crash a thread that Go ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(t.stopped)
	for {
		select {
		case call := <-t.calls:
			call()
		case <-t.quit:
			return
		}
	}
}

// do runs call on the thread and gives its result. The call must be short: all
// other starts wait for it.
func (t *forkThread) do(call func() error) error {
	result := make(chan error, 1)
	select {
	case t.calls <- func() { result <- call() }:
		return <-result
	case <-t.stopped:
		return &shared.Error{Kind: shared.KindShuttingDown, Message: "the launcher is closed"}
	}
}

// stop gives the thread back. It is called once, when no worker is left.
func (t *forkThread) stop() {
	close(t.quit)
	<-t.stopped
}
