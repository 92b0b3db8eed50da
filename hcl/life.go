package hcl

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Life is how the supervisor looks after its workers.
type Life struct {
	DrainTimeout time.Duration
	WedgeAfter   time.Duration
	Heartbeat    time.Duration
}

// Defaults and bounds of what belongs to the life of workers.
const (
	defaultDrain     = 30 * time.Second
	defaultWedge     = 20 * time.Second
	defaultHeartbeat = time.Second
	minHeartbeat     = 50 * time.Millisecond
	maxLife          = 24 * time.Hour
	maxAttempts      = 1000
)

func (d *decoder) life(n *node) Life {
	l := Life{
		DrainTimeout: d.duration(n, "drain_timeout", defaultDrain, time.Millisecond, maxLife),
		WedgeAfter:   d.duration(n, "wedge_after", defaultWedge, minHeartbeat, maxLife),
		Heartbeat:    d.duration(n, "heartbeat", defaultHeartbeat, minHeartbeat, maxLife),
	}
	if l.Heartbeat > l.WedgeAfter/2 {
		for _, key := range []string{"heartbeat", "wedge_after"} {
			if v, ok := d.get(n, key); ok {
				d.errorf(v.rng, "Too few heartbeats", "heartbeat is at most half of wedge_after, which is %v, so that one late answer kills nobody.", l.WedgeAfter)
				break
			}
		}
	}
	return l
}

// restart reads Nomad's block of that name. Without one, the defaults are the
// supervisor's.
func (d *decoder) restart(n *node) shared.RestartPolicy {
	if n == nil {
		return shared.RestartPolicy{}
	}
	def := shared.DefaultRestart()
	p := shared.RestartPolicy{
		Attempts: d.number(n, "attempts", def.Attempts, 0, maxAttempts),
		Interval: d.duration(n, "interval", def.Interval, time.Millisecond, maxLife),
		Delay:    d.duration(n, "delay", def.Delay, time.Millisecond, maxLife),
		MaxDelay: def.MaxDelay,
		Mode:     shared.RestartMode(d.choice(n, "mode", string(shared.RestartDelay), string(shared.RestartFail))),
	}
	p.MaxDelay = d.duration(n, "max_delay", max(def.MaxDelay, p.Delay), time.Millisecond, maxLife)
	if v, ok := d.get(n, "max_delay"); ok && p.MaxDelay < p.Delay {
		d.errorf(v.rng, "Delay too short", "max_delay is at least delay, which is %v.", p.Delay)
		return p
	}
	if p.Longest() > p.Interval {
		d.errorf(n.rng, "Interval too short", "The delays of %d attempts can take longer than the interval of %v, so the attempts would never be used up.", p.Attempts, p.Interval)
	}
	return p
}
