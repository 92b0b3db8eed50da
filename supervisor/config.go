package supervisor

import (
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
	// Restart says what happens after a worker process has ended by itself.
	Restart RestartPolicy
	// Source reads the configuration again for a reload; nil means that there is
	// nothing to read.
	Source Source
	// HashParallel is how many model files are hashed at once; 0 means 2.
	HashParallel int
}

// RestartPolicy spaces out restarts of a worker that keeps ending.
type RestartPolicy struct {
	// Attempts is how many restarts in a row are made before the slot's process
	// counts as failed; 0 means 5.
	Attempts int
	// Delay is the wait before the first restart, doubled for each one after
	// it; 0 means 500 ms.
	Delay time.Duration
	// MaxDelay bounds the wait; 0 means 30 s.
	MaxDelay time.Duration
	// Healthy is how long a slot has to stay resident for its earlier crashes to
	// be forgotten; 0 means 30 s.
	Healthy time.Duration
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
		}
		ids[spec.SlotID] = true
		models[spec.Model] = true
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
		{"restart.delay", c.Restart.Delay}, {"restart.max_delay", c.Restart.MaxDelay}, {"restart.interval", c.Restart.Healthy},
	} {
		if d.value < 0 {
			return configError("", d.name, d.name+" is negative")
		}
	}
	if c.Restart.Attempts < 0 {
		return configError("", "restart.attempts", "restart.attempts is negative")
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
	c.Restart.Delay = orDefault(c.Restart.Delay, 500*time.Millisecond)
	c.Restart.MaxDelay = orDefault(c.Restart.MaxDelay, 30*time.Second)
	c.Restart.Healthy = orDefault(c.Restart.Healthy, 30*time.Second)
	if c.Restart.Attempts == 0 {
		c.Restart.Attempts = 5
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
