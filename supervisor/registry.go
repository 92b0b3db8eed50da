package supervisor

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/firstframe/firstframe/shared"
)

// registry knows which slots there are, under which names, and which identity
// each has. Readers take a snapshot, which never changes; the registry's
// goroutine makes a new one when identities become known.
type registry struct {
	current atomic.Pointer[snapshot]
	changes chan change
}

// change is what became known of one slot.
type change struct {
	index    int
	identity shared.Identity
	err      *shared.Error
}

// snapshot is the registry at one moment.
type snapshot struct {
	names  *names
	slots  []declaration
	groups map[shared.Identity]*group
	newer  chan struct{} // closed when another snapshot has taken its place
}

// declaration is one slot as far as it is known.
type declaration struct {
	slot *slot
	// identity is empty at first, then lacks the model revision until the file
	// has been hashed. It is what the file proves, also when that is wrong.
	identity shared.Identity
	// err is why the slot cannot be what it was declared to be.
	err *shared.Error
}

func (d *declaration) known() bool { return d.err == nil && d.identity.Complete() }

// group is the slots of one identity, in declaration order.
type group struct {
	slots []*slot
}

// names finds slots by what people call them. It never changes.
type names struct {
	slots   map[string]int
	aliases map[string]int
	models  map[string][]int
	// replicas is the slots that were declared together, by the name of that.
	replicas map[string][]int
	all      []int
}

func newRegistry(slots []*slot, aliases map[string]string) *registry {
	n := &names{
		slots:   make(map[string]int, len(slots)),
		aliases: make(map[string]int, len(aliases)),
		models:  make(map[string][]int, len(slots)),
	}
	n.replicas = map[string][]int{}
	declarations := make([]declaration, len(slots))
	for i, s := range slots {
		declarations[i].slot = s
		n.slots[s.spec.SlotID] = i
		n.models[s.spec.Model] = append(n.models[s.spec.Model], i)
		n.all = append(n.all, i)
		if of := s.spec.ReplicaOf; of != "" {
			n.replicas[of] = append(n.replicas[of], i)
		}
	}
	for alias, slotID := range aliases {
		n.aliases[alias] = n.slots[slotID]
	}
	r := &registry{changes: make(chan change, 64)}
	r.current.Store(newSnapshot(n, declarations))
	return r
}

func newSnapshot(n *names, declarations []declaration) *snapshot {
	s := &snapshot{
		names:  n,
		slots:  declarations,
		groups: make(map[shared.Identity]*group, len(declarations)),
		newer:  make(chan struct{}),
	}
	for i := range declarations {
		d := &declarations[i]
		if !d.known() {
			continue
		}
		g := s.groups[d.identity]
		if g == nil {
			g = &group{}
			s.groups[d.identity] = g
		}
		g.slots = append(g.slots, d.slot)
	}
	return s
}

// run is the registry's goroutine. Changes that are waiting together become
// visible together, so that many small files do not cost a snapshot each.
func (r *registry) run(ctx context.Context) {
	for {
		var c change
		select {
		case c = <-r.changes:
		case <-ctx.Done():
			return
		}
		old := r.current.Load()
		next := slices.Clone(old.slots)
		for more := true; more; {
			next[c.index].identity, next[c.index].err = c.identity, c.err
			select {
			case c = <-r.changes:
			default:
				more = false
			}
		}
		r.current.Store(newSnapshot(old.names, next))
		close(old.newer)
	}
}

// learn tells the registry what became known of a slot.
func (r *registry) learn(ctx context.Context, c change) {
	select {
	case r.changes <- c:
	case <-ctx.Done():
	}
}

// route finds the slots of an identity: one map read.
func (s *snapshot) route(id shared.Identity) *group { return s.groups[id] }

// slotsNamed finds slots by an id, an alias, or the name that they were declared
// under together.
func (s *snapshot) slotsNamed(op, name string) ([]int, error) {
	if i, ok := s.names.slots[name]; ok {
		return []int{i}, nil
	}
	if is, ok := s.names.replicas[name]; ok {
		return is, nil
	}
	if i, ok := s.names.aliases[name]; ok {
		if of := s.slots[i].slot.spec.ReplicaOf; of != "" {
			return s.names.replicas[of], nil
		}
		return []int{i}, nil
	}
	return nil, s.unknownName(op, "slot_id", name)
}

// aliasList is alias to slot id, for people.
func (s *snapshot) aliasList() map[string]string {
	out := make(map[string]string, len(s.names.aliases))
	for alias, i := range s.names.aliases {
		spec := s.slots[i].slot.spec
		out[alias] = cmp.Or(spec.ReplicaOf, spec.SlotID)
	}
	return out
}
