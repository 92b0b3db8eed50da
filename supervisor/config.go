package supervisor

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Config says what a Supervisor serves and how patient it is.
type Config struct {
	// Slots are the declared slots in the order in which people see them.
	Slots []shared.SlotSpec
	// Aliases gives further names to slots: alias to slot id.
	Aliases map[string]string
	// Launcher starts worker processes.
	Launcher Launcher
	// StateDir keeps the digests of model files over restarts. Empty means that
	// nothing is kept.
	StateDir string
	// Logger gets one line for each change of a slot; nil means no log.
	Logger hclog.Logger
	// DrainTimeout is how long requests may go on once their slot is to be
	// evicted or stopped; 0 means 30 s.
	DrainTimeout time.Duration
	// DefaultDeadline is for requests that name none; 0 means 5 minutes.
	DefaultDeadline time.Duration
	// Restart is for slots that have no policy of their own; the zero value means
	// shared.DefaultRestart.
	Restart shared.RestartPolicy
	// Heartbeat is how often workers are asked for a sign of life; 0 means 1 s.
	Heartbeat time.Duration
	// WedgeAfter is how long a worker may give none, or not get on with its work,
	// before it is killed; 0 means 20 s.
	WedgeAfter time.Duration
	// Budgets bounds memory by device, and host buffers as shared.HostDevice. What
	// is not in it has no bound.
	Budgets map[string]int64
	// MinResidency is how long a slot that was just loaded is not evicted for
	// another one; 0 means 10 s, a negative one means none.
	MinResidency time.Duration
	// Source reads the configuration again for a reload; nil means that there is
	// nothing to read.
	Source Source
	// HashParallel is how many model files are hashed at once; 0 means 2.
	HashParallel int
}

// Validate reports the first thing that is wrong with the configuration.
func (c Config) Validate() error {
	if c.Launcher == nil {
		return shared.Errorf(shared.KindConfig, "the supervisor needs a launcher")
	}
	ids := make(map[string]bool, len(c.Slots))
	models := make(map[string]bool, len(c.Slots))
	for i, spec := range c.Slots {
		switch {
		case spec.SlotID == "":
			return shared.Errorf(shared.KindConfig, "slot number %d has no id", i+1)
		case ids[spec.SlotID]:
			return configError(spec.SlotID, "slot_id", "the id is declared twice")
		case spec.ModelPath == "":
			return configError(spec.SlotID, "path", "the model has no path")
		case !validOnMiss(spec.OnMiss):
			return configError(spec.SlotID, "on_miss", "on_miss is "+string(spec.OnMiss)+"; it can be wait, pending or fail")
		case spec.IdleTTL < 0:
			return configError(spec.SlotID, "idle_ttl", "idle_ttl is negative")
		}
		if err := checkRestart(spec.SlotID, spec.Restart); err != nil {
			return err
		}
		ids[spec.SlotID] = true
		models[spec.Model] = true
	}
	for _, spec := range c.Slots {
		if of := spec.ReplicaOf; of != "" && ids[of] {
			return configError(spec.SlotID, "replica_of", "replica_of "+of+" is also the id of a slot")
		}
	}
	for alias, slotID := range c.Aliases {
		switch {
		case alias == "":
			return configError(slotID, "alias", "an alias has no name")
		case !ids[slotID]:
			return configError(slotID, "alias", "alias "+alias+" names a slot that is not declared")
		case ids[alias]:
			return configError(slotID, "alias", "alias "+alias+" is also the id of a slot")
		case models[alias]:
			return configError(slotID, "alias", "alias "+alias+" is also the name of a model")
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"drain_timeout", c.DrainTimeout}, {"deadline", c.DefaultDeadline},
		{"heartbeat", c.Heartbeat}, {"wedge_after", c.WedgeAfter},
	} {
		if d.value < 0 {
			return configError("", d.name, d.name+" is negative")
		}
	}
	for device, limit := range c.Budgets {
		if limit <= 0 {
			return configError("", "budget."+device, "the budget of "+device+" is not positive")
		}
	}
	return checkRestart("", c.Restart)
}

// checkRestart refuses a policy that contradicts itself.
func checkRestart(slotID string, p shared.RestartPolicy) error {
	switch {
	case p == (shared.RestartPolicy{}):
	case p.Attempts < 0:
		return configError(slotID, "restart.attempts", "restart.attempts is negative")
	case p.Interval <= 0:
		return configError(slotID, "restart.interval", "restart.interval is not positive")
	case p.Delay < 0:
		return configError(slotID, "restart.delay", "restart.delay is negative")
	case p.MaxDelay < p.Delay:
		return configError(slotID, "restart.max_delay", "restart.max_delay is shorter than restart.delay")
	case p.Mode != shared.RestartDelay && p.Mode != shared.RestartFail:
		return configError(slotID, "restart.mode", "restart.mode is "+string(p.Mode)+"; it can be delay or fail")
	case p.Longest() > p.Interval:
		return configError(slotID, "restart.interval", fmt.Sprintf("restart.interval is %v, and the delays of %d attempts take longer", p.Interval, p.Attempts))
	}
	return nil
}

func validOnMiss(m shared.OnMiss) bool {
	switch m {
	case "", shared.OnMissWait, shared.OnMissPending, shared.OnMissFail:
		return true
	}
	return false
}

func configError(slotID, field, message string) error {
	return &shared.Error{SlotID: slotID, Kind: shared.KindConfig, Field: field, Message: message}
}

// withDefaults fills in what was left empty.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.DrainTimeout = orDefault(c.DrainTimeout, 30*time.Second)
	c.DefaultDeadline = orDefault(c.DefaultDeadline, 5*time.Minute)
	c.Heartbeat = orDefault(c.Heartbeat, time.Second)
	c.MinResidency = max(orDefault(c.MinResidency, 10*time.Second), 0)
	c.WedgeAfter = orDefault(c.WedgeAfter, 20*time.Second)
	if c.Restart == (shared.RestartPolicy{}) {
		c.Restart = shared.DefaultRestart()
	}
	if c.HashParallel <= 0 {
		c.HashParallel = 2
	}
	return c
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
