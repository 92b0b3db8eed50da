package slotworker

import "time"

// firstChunkWait bounds how long the next step waits for a first chunk to leave.
const firstChunkWait = 5 * time.Millisecond

// letFirstChunksOut waits a moment until the first chunks of this step have been
// handed to the transport. The engine uses all cores that it was given, and
// without the wait the next step would take them from the goroutines that have
// to send. A consumer that does not come within the bound holds up nobody.
func (s *scheduler) letFirstChunksOut() {
	if len(s.fresh) == 0 {
		return
	}
	timeout := time.NewTimer(firstChunkWait)
	defer timeout.Stop()
	for i, r := range s.fresh {
		s.fresh[i] = nil
		select {
		case <-r.box.emitted:
		case <-r.ctx.Done():
		case <-timeout.C:
			timeout.Reset(0)
		}
	}
	s.fresh = s.fresh[:0]
}
