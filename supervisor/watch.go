package supervisor

import (
	"sync"
	"sync/atomic"
)

// broadcast tells watchers that something changed, not what: they look for
// themselves. Any number of changes between two looks are one.
type broadcast struct {
	count atomic.Int32 // of watchers, so that nothing is locked when there are none

	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// notify never blocks.
func (b *broadcast) notify() {
	if b.count.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch := range b.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// subscribe gives a channel that holds at most one notice, and its end.
func (b *broadcast) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers == nil {
		b.watchers = map[chan struct{}]struct{}{}
	}
	b.watchers[ch] = struct{}{}
	b.count.Add(1)
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, ch)
		b.count.Add(-1)
	}
}
