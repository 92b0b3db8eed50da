package slotworker

import (
	"context"
	"time"
)

// chunkBeat is how often what has been added to an answer is sent, after its first
// chunk, which goes at once, and before its end, which goes at once as well. It is
// a frame of a display with 120 of them a second: more cannot be seen, and each
// chunk wakes up three processes on its way. A model that takes longer than this for
// a token has each of them sent at once.
const chunkBeat = time.Second / 120

// nextBeat waits for the next beat of all answers of the slot, so that what they
// send travels together, or until the answer has ended or ctx has.
func (s *scheduler) nextBeat(ctx context.Context, box *mailbox) {
	beat := time.NewTimer(chunkBeat - time.Since(s.began)%chunkBeat)
	defer beat.Stop()
	select {
	case <-beat.C:
	case <-box.ended:
	case <-ctx.Done():
	}
}
