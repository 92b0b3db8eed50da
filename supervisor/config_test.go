package supervisor

import (
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

func TestConfigValidate(t *testing.T) {
	good := func() Config {
		return Config{
			Launcher: newFakeLauncher(),
			Slots:    []shared.SlotSpec{rigSlot("a", "story", "Q8_0"), rigSlot("b", "story", "F16")},
			Aliases:  map[string]string{"gpt": "a"},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Config){
		"":                 func(c *Config) { c.Launcher = nil },
		"slot_id":          func(c *Config) { c.Slots[1].SlotID = "a" },
		"path":             func(c *Config) { c.Slots[0].ModelPath = "" },
		"on_miss":          func(c *Config) { c.Slots[0].OnMiss = "perhaps" },
		"alias":            func(c *Config) { c.Aliases["x"] = "nobody" },
		"drain_timeout":    func(c *Config) { c.DrainTimeout = -1 },
		"restart.delay":    func(c *Config) { c.Restart = shared.DefaultRestart(); c.Restart.Delay = -1 },
		"heartbeat":        func(c *Config) { c.Heartbeat = -1 },
		"wedge_after":      func(c *Config) { c.WedgeAfter = -1 },
		"idle_ttl":         func(c *Config) { c.Slots[1].IdleTTL = -1 },
		"restart.mode":     func(c *Config) { c.Slots[1].Restart = shared.DefaultRestart(); c.Slots[1].Restart.Mode = "x" },
		"restart.interval": func(c *Config) { c.Slots[1].Restart = shared.DefaultRestart(); c.Slots[1].Restart.Attempts = 20 },
		"deadline":         func(c *Config) { c.DefaultDeadline = -1 },
		"restart.attempts": func(c *Config) { c.Restart.Attempts = -1 },
	} {
		c := good()
		spoil(&c)
		e := errorOf(t, c.Validate(), shared.KindConfig)
		if e.Field != field {
			t.Errorf("the error names field %q, want %q: %v", e.Field, field, e)
		}
		if _, err := New(c); shared.KindOf(err) != shared.KindConfig {
			t.Errorf("New takes it: %v", err)
		}
	}
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Slots[0].SlotID = "" },
		func(c *Config) { c.Aliases[""] = "a" },
		func(c *Config) { c.Aliases["b"] = "a" },
		func(c *Config) { c.Aliases["story"] = "a" },
	} {
		c := good()
		spoil(&c)
		wantKind(t, c.Validate(), shared.KindConfig)
	}
}

func TestDefaults(t *testing.T) {
	c := Config{}.withDefaults()
	if c.Restart != shared.DefaultRestart() || c.Heartbeat != time.Second || c.WedgeAfter != 20*time.Second || c.DefaultDeadline != 5*time.Minute || c.DrainTimeout != 30*time.Second || c.HashParallel != 2 || c.Logger == nil {
		t.Errorf("the defaults are %+v", c)
	}
	if c = (Config{DrainTimeout: time.Second}).withDefaults(); c.DrainTimeout != time.Second {
		t.Error("a default replaced what was set")
	}
}
