package supervisor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// config is the configuration that a rig reads on reload.
type config struct {
	mu    sync.Mutex
	next  shared.Declaration
	diags []shared.Diagnostic
}

func (c *config) source(context.Context) (shared.Declaration, []shared.Diagnostic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next, c.diags
}

// reload makes a declaration the present one.
func (c *config) reload(r *rig, d shared.Declaration) shared.Plan {
	r.t.Helper()
	c.mu.Lock()
	c.next = d
	c.mu.Unlock()
	res, err := r.Reload(r.t.Context())
	if err != nil || !res.Applied {
		r.t.Fatalf("reload: %+v, %v", res, err)
	}
	return res.Plan
}

// reloadRig has slots a, b and c of three models.
func reloadRig(t *testing.T, setUp func(*rig)) (*rig, *config) {
	t.Helper()
	c := &config{}
	cfg := Config{
		Slots:        []shared.SlotSpec{rigSlot("a", "one", "Q8_0"), rigSlot("b", "two", "Q8_0"), rigSlot("c", "three", "Q8_0")},
		Aliases:      map[string]string{"first": "a"},
		Source:       c.source,
		DrainTimeout: 30 * time.Second,
	}
	return newRig(t, cfg, setUp), c
}

// declared is what the rig serves now, with changes to one slot.
func (r *rig) declared(change func(map[string]*shared.SlotSpec)) shared.Declaration {
	snap := r.registry.current.Load()
	d := shared.Declaration{Aliases: snap.aliasList()}
	specs := map[string]*shared.SlotSpec{}
	for _, old := range snap.slots {
		spec := old.slot.spec
		specs[spec.SlotID] = &spec
	}
	ids := []string{"a", "b", "c"}
	change(specs)
	for id := range specs {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if spec := specs[id]; spec != nil {
			d.Slots = append(d.Slots, *spec)
		}
	}
	return d
}

func parallel(n int) func(map[string]*shared.SlotSpec) {
	return func(s map[string]*shared.SlotSpec) { s["b"].Parallel = n }
}

// seconds makes a request run that long after its first text, or before it.
func slowWorkers(before bool) func(*rig) {
	return func(r *rig) {
		r.launcher.script = func(_ string, _ int, w *fakeWorker) {
			w.onGenerate = func(ctx context.Context, q shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
				if before {
					if err := pause(ctx, time.Duration(q.MaxTokens)*time.Second); err != nil {
						return shared.Result{}, err
					}
				}
				if err := emit(shared.Chunk{Text: "once upon a time", Tokens: []int32{1, 2, 3}}); err != nil {
					return shared.Result{}, err
				}
				if !before {
					return shared.Result{}, pause(ctx, time.Duration(q.MaxTokens)*time.Second)
				}
				return shared.Result{}, nil
			}
		}
	}
}

func tokens(n int) func(*shared.GenerateRequest) {
	return func(q *shared.GenerateRequest) { q.MaxTokens = n }
}
