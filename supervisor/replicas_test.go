package supervisor

import (
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func replicas(n int) Config {
	var cfg Config
	for i := range n {
		s := rigSlot([]string{"story/0", "story/1", "story/2"}[i], "tale", "Q8_0")
		s.ReplicaOf = "story"
		s.Parallel = 2
		cfg.Slots = append(cfg.Slots, s)
	}
	cfg.Aliases = map[string]string{"gpt": "story/0"}
	return cfg
}

func TestReplicasAreOneName(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, replicas(2), nil)
		defer r.end()
		for _, name := range []string{"story", "gpt"} {
			res, err := r.Resolve(t.Context(), shared.Requirement{SlotID: name})
			if err != nil || len(res.SlotIDs) != 2 {
				t.Errorf("%s means %+v, %v", name, res, err)
			}
		}
		if _, err := r.Prepare(t.Context(), "story", nil); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"story/0", "story/1"} {
			if s := r.slot(id).Status; s != shared.SlotResident {
				t.Errorf("%s is %s", id, s)
			}
			if res := r.mustAsk(id); res.SlotID != id {
				t.Errorf("a request for %s was served by %s", id, res.SlotID)
			}
		}
		if l := r.list(t.Context()); l.Aliases["gpt"] != "story" || len(l.Aliases) != 1 {
			t.Errorf("the aliases are %v", l.Aliases)
		}
		if _, err := r.Evict(t.Context(), "gpt", true); err != nil {
			t.Fatal(err)
		}
		if a, b := r.slot("story/0"), r.slot("story/1"); a.Status != shared.SlotEmpty || b.Status != shared.SlotEmpty {
			t.Errorf("after the eviction of both: %s, %s", a.Status, b.Status)
		}
	})
}
