package supervisor

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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

func prompt(text string) func(*shared.GenerateRequest) {
	return func(r *shared.GenerateRequest) { r.Prompt = text }
}

func TestConversationStaysWithItsReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, replicas(3), nil)
		defer r.end()
		if _, err := r.Prepare(t.Context(), "story", nil); err != nil {
			t.Fatal(err)
		}
		talk := func(who string) string { return strings.Repeat(who+" says something. ", 40) }
		first := map[string]string{}
		// Everybody begins at the same time, so that each replica has one of them.
		hold := make(chan struct{})
		for _, id := range []string{"story/0", "story/1", "story/2"} {
			w := r.launcher.process(id).worker
			w.onGenerate = func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
				<-hold
				return w.answer(ctx, req, emit)
			}
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, who := range []string{"anna", "ben", "carla"} {
			all.Go(func() {
				res := r.mustAsk("story", prompt(talk(who)))
				mu.Lock()
				defer mu.Unlock()
				first[who] = res.SlotID
			})
			synctest.Wait()
		}
		close(hold)
		all.Wait()
		if first["anna"] == first["ben"] || first["ben"] == first["carla"] || first["anna"] == first["carla"] {
			t.Errorf("requests at the same time went to %v", first)
		}
		for range 3 {
			for who, id := range first {
				if res := r.mustAsk("story", prompt(talk(who)+"And then?")); res.SlotID != id {
					t.Errorf("%s began on %s and went on to %s", who, id, res.SlotID)
				}
			}
		}
	})
}

func TestFullReplicaIsNotPreferred(t *testing.T) {
	slots := make([]*slot, 2)
	for i := range slots {
		slots[i] = &slot{}
		slots[i].view.Store(&shared.SlotInfo{Status: shared.SlotActive, Process: shared.ProcessUp, Parallel: 2, InFlight: 1})
	}
	slots[1].view.Store(&shared.SlotInfo{Status: shared.SlotResident, Process: shared.ProcessUp, Parallel: 2})
	if choose(slots, nil, slots[0]) != slots[0] {
		t.Error("a replica with a free sequence lost its conversation")
	}
	slots[0].view.Store(&shared.SlotInfo{Status: shared.SlotActive, Process: shared.ProcessUp, Parallel: 2, InFlight: 2})
	if choose(slots, nil, slots[0]) != slots[1] || choose(slots, nil, nil) != slots[1] {
		t.Error("a full replica was chosen")
	}
	if choose(slots, slots[1], nil) != slots[0] {
		t.Error("the replica whose worker was lost was chosen")
	}
}

func TestAffinityIsBounded(t *testing.T) {
	a := newAffinity()
	id := shared.Identity{ModelRevision: "x"}
	for i := range 3 * affinityMost {
		a.served([]uint64{uint64(i)}, &slot{})
	}
	if len(a.recent) > affinityMost || len(a.older) > affinityMost {
		t.Errorf("%d and %d marks", len(a.recent), len(a.older))
	}
	long := shared.GenerateRequest{Prompt: strings.Repeat("x", 10*affinityMarks*affinityBlock)}
	if n := len(a.marks(id, long)); n != affinityMarks {
		t.Errorf("%d marks of one prompt", n)
	}
	if n := len(a.marks(id, shared.GenerateRequest{Prompt: "short"})); n != 0 {
		t.Errorf("%d marks of a short prompt", n)
	}
	tokens := make([]int32, affinityBlock)
	if n := len(a.marks(id, shared.GenerateRequest{PromptTokens: tokens})); n != 4 {
		t.Errorf("%d marks of tokens", n)
	}
}
