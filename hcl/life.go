package hcl

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
)

// Life is how the supervisor looks after its workers.
type Life struct {
	DrainTimeout time.Duration
	WedgeAfter   time.Duration
	Heartbeat    time.Duration
	MinResidency time.Duration
	// Budgets is by device, with host memory as shared.HostDevice; what is not in
	// it has no bound.
	Budgets map[string]int64
}

// Defaults and bounds of what belongs to the life of workers.
const (
	defaultDrain     = 30 * time.Second
	defaultWedge     = 20 * time.Second
	defaultHeartbeat = time.Second
	minHeartbeat     = 50 * time.Millisecond
	maxLife          = 24 * time.Hour
	maxAttempts      = 1000
	maxReplicas      = 64
	defaultResidency = 10 * time.Second
	minBudget        = 1 << 20
	maxBudget        = 1 << 50
)

func (d *decoder) life(n *node) Life {
	l := Life{
		DrainTimeout: d.duration(n, "drain_timeout", defaultDrain, time.Millisecond, maxLife),
		WedgeAfter:   d.duration(n, "wedge_after", defaultWedge, minHeartbeat, maxLife),
		Heartbeat:    d.duration(n, "heartbeat", defaultHeartbeat, minHeartbeat, maxLife),
	}
	l.MinResidency = d.duration(n, "min_residency", defaultResidency, 0, maxLife)
	l.Budgets = d.budgets(n.first("budget"))
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

func (d *decoder) budgets(n *node) map[string]int64 {
	if n == nil {
		return nil
	}
	budgets := map[string]int64{}
	if host := d.size(n, "host", 0, minBudget, maxBudget); host > 0 {
		budgets[shared.HostDevice] = host
	}
	seen := map[string]hcl.Range{}
	for _, device := range n.blocks["device"] {
		name := device.label
		switch earlier, repeated := seen[name]; {
		case repeated:
			d.errorf(device.rng, "Repeated budget", "There is already a budget of device %q at %s.", name, at(earlier))
		case !isDevice(name):
			d.unknownDevice(device.rng)
		}
		seen[name] = device.rng
		if memory := d.size(device, "memory", 0, minBudget, maxBudget); memory > 0 {
			budgets[name] = memory
		}
	}
	return budgets
}

// replicas gives a slot once for each of its processes.
func (d *decoder) replicas(n *node, spec shared.SlotSpec) []shared.SlotSpec {
	count := d.number(n, "replicas", 1, 1, maxReplicas)
	if count == 1 {
		return []shared.SlotSpec{spec}
	}
	specs := make([]shared.SlotSpec, count)
	for i := range specs {
		specs[i] = spec
		specs[i].SlotID, specs[i].ReplicaOf = fmt.Sprintf("%s/%d", spec.SlotID, i), spec.SlotID
	}
	return specs
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
