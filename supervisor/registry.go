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
// goroutine makes a new one when identities become known or slots are replaced.
type registry struct {
	current      atomic.Pointer[snapshot]
	changes      chan change
	replacements chan replacement
	// retired are slots that were taken out of service and may not have ended.
	retired []*slot
	// done is closed when the goroutine has ended; what it owned is then for
	// everybody to read.
	done chan struct{}
}

// change is what became known of one slot.
type change struct {
	slot     *slot
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
	places   map[*slot]int
}

func newRegistry(slots []*slot, aliases map[string]string) *registry {
	declarations := make([]declaration, len(slots))
	for i, s := range slots {
		declarations[i].slot = s
	}
	r := &registry{changes: make(chan change, 64), replacements: make(chan replacement), done: make(chan struct{})}
	r.current.Store(newSnapshot(newNames(declarations, aliases), declarations))
	return r
}

func newNames(declarations []declaration, aliases map[string]string) *names {
	n := &names{
		slots:   make(map[string]int, len(declarations)),
		aliases: make(map[string]int, len(aliases)),
		models:  make(map[string][]int, len(declarations)),
		places:  make(map[*slot]int, len(declarations)),

		replicas: map[string][]int{},
	}
	for i, d := range declarations {
		spec := d.slot.spec
		n.slots[spec.SlotID] = i
		n.models[spec.Model] = append(n.models[spec.Model], i)
		n.all = append(n.all, i)
		n.places[d.slot] = i
		if of := spec.ReplicaOf; of != "" {
			n.replicas[of] = append(n.replicas[of], i)
		}
	}
	for alias, slotID := range aliases {
		n.aliases[alias] = n.slots[slotID]
	}
	return n
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

// run is the registry's goroutine.
func (r *registry) run(ctx context.Context) {
	defer close(r.done)
	for {
		select {
		case c := <-r.changes:
			r.note(c)
		case p := <-r.replacements:
			p.answer <- r.replace(p)
		case <-ctx.Done():
			return
		}
	}
}

// note makes what became known of slots visible. Changes that are waiting
// together become visible together, so that many small files do not cost a
// snapshot each. What is about a slot that was replaced meanwhile is dropped.
func (r *registry) note(c change) {
	old := r.current.Load()
	next := slices.Clone(old.slots)
	for more := true; more; {
		if i, ok := old.names.places[c.slot]; ok {
			next[i].identity, next[i].err = c.identity, c.err
		}
		select {
		case c = <-r.changes:
		default:
			more = false
		}
	}
	r.publish(old, newSnapshot(old.names, next))
}

func (r *registry) publish(old, next *snapshot) {
	r.current.Store(next)
	close(old.newer)
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

// declarationOf is what is known of a slot; false for one that was replaced.
func (s *snapshot) declarationOf(sl *slot) (declaration, bool) {
	i, ok := s.names.places[sl]
	if !ok {
		return declaration{}, false
	}
	return s.slots[i], true
}

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
