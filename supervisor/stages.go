package supervisor

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// stage is one part of a preparation.
type stage int

const (
	stageSpawn stage = iota
	stagePrefetch
	stageTransfer
	stageWarmup
	stageCanary
	stageCount
)

// span is when a stage ran, by this process's clock.
type span struct{ start, end time.Time }

// stages is when each part of the latest preparation ran.
type stages [stageCount]span

func (s *stages) mark(st stage, start, end time.Time) { s[st] = span{start, end} }

// activated lays out the parts of an activation inside the time that the call
// took here. The worker measured their lengths; the last ended with the call,
// and what the parts leave at its start was transfer's way there.
func (s *stages) activated(start, end time.Time, res shared.ActivateResult) {
	at := end
	for _, part := range []struct {
		stage  stage
		length time.Duration
	}{{stageCanary, res.Canary}, {stageWarmup, res.Warmup}, {stageTransfer, res.Transfer}} {
		from := at.Add(-part.length)
		if from.Before(start) {
			from = start
		}
		s.mark(part.stage, from, at)
		at = from
	}
}

// during is how much of each part fell between two moments: a request that
// joined half way did not wait for the beginning.
func (s *stages) during(from, to time.Time) shared.ActivationDetail {
	overlap := func(st stage) time.Duration {
		start, end := s[st].start, s[st].end
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		return max(end.Sub(start), 0)
	}
	return shared.ActivationDetail{
		Spawn:    overlap(stageSpawn),
		Prefetch: overlap(stagePrefetch),
		Transfer: overlap(stageTransfer),
		Warmup:   overlap(stageWarmup),
		Canary:   overlap(stageCanary),
	}
}

// retryAfter guesses when a preparation that was just asked for will be done:
// it takes as long as the last one did.
func (s *stages) retryAfter() time.Duration {
	var took time.Duration
	for _, sp := range s {
		took += sp.end.Sub(sp.start)
	}
	if took == 0 {
		return time.Second
	}
	return min(max(took, 100*time.Millisecond), time.Minute)
}
