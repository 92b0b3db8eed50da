package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/firstframe/firstframe/shared"
)

// target is what a requirement means: one identity, and the slots to serve it.
type target struct {
	identity shared.Identity
	model    string
	slots    []*slot
}

// resolve turns a requirement into exactly one identity. It reads nothing but
// the snapshot. Slots whose identity is not known yet, and that could change
// the answer, are returned as undecided; the caller may come back when there is
// a newer snapshot.
func (s *snapshot) resolve(req shared.Requirement) (target, []*slot, error) {
	named, err := s.named(req)
	if err != nil {
		return target{}, nil, err
	}
	wanted := required(req)
	var found, others, bad, doubtful []*declaration
	var undecided []*slot
	ambiguous := false
	for _, i := range named {
		d := &s.slots[i]
		switch {
		case d.err != nil && len(misses(d.identity, wanted)) == 0:
			bad = append(bad, d)
		case d.err != nil:
			if possible(d.identity, wanted) {
				doubtful = append(doubtful, d)
			}
		case !d.known() && possible(d.identity, wanted):
			undecided = append(undecided, d.slot)
		case len(misses(d.identity, wanted)) > 0:
			others = append(others, d)
		default:
			ambiguous = ambiguous || len(found) > 0 && found[0].identity != d.identity
			found = append(found, d)
		}
	}
	switch {
	case ambiguous: // what is undecided cannot make it less so
		return target{}, nil, ambiguity(req, found)
	case len(undecided) > 0:
		return target{}, undecided, nil
	case len(found) > 0:
		return s.target(req, found[0]), nil, nil
	case len(bad) > 0:
		return target{}, nil, declarationError(bad[0])
	case len(doubtful) > 0 && len(others) == 0:
		return target{}, nil, declarationError(doubtful[0])
	default:
		return target{}, nil, notFound(req, wanted, others, doubtful)
	}
}

// target names the slots that may serve. A request for a slot by its own id
// stays with that slot; every other one goes to the whole group.
func (s *snapshot) target(req shared.Requirement, d *declaration) target {
	t := target{identity: d.identity, model: d.slot.spec.Model, slots: s.route(d.identity).slots}
	if i, ok := s.names.slots[req.SlotID]; ok {
		t.slots = []*slot{s.slots[i].slot}
	}
	return t
}

// named narrows the slots by the names in a requirement. SlotID is a slot's id
// or an alias; Model may be the name of a model, too. A name that means several
// things means all of them: what is left is decided by identity, not by rank.
func (s *snapshot) named(req shared.Requirement) ([]int, error) {
	candidates := s.names.all
	if req.SlotID != "" {
		is, err := s.slotsNamed("resolve", req.SlotID)
		if err != nil {
			return nil, err
		}
		candidates = is
	}
	if req.Model == "" {
		return candidates, nil
	}
	byModel := s.names.models[req.Model]
	for _, i := range s.names.replicas[req.Model] {
		if !slices.Contains(byModel, i) {
			byModel = append(slices.Clip(byModel), i)
		}
	}
	if i, ok := s.names.slots[req.Model]; ok && !slices.Contains(byModel, i) {
		byModel = append(slices.Clip(byModel), i)
	}
	if i, ok := s.names.aliases[req.Model]; ok && !slices.Contains(byModel, i) {
		byModel = append(slices.Clip(byModel), i)
	}
	if len(byModel) == 0 {
		return nil, s.unknownName("resolve", "model", req.Model)
	}
	if req.SlotID == "" {
		return byModel, nil
	}
	if slices.Contains(byModel, candidates[0]) {
		return candidates, nil // replicas have one model
	}
	d := &s.slots[candidates[0]]
	return nil, &shared.Error{
		Op: "resolve", Kind: shared.KindNotFound, Field: "model",
		Message:    fmt.Sprintf("slot %s has model %s, not %s", req.SlotID, d.slot.spec.Model, req.Model),
		Candidates: []shared.Candidate{candidate(d)},
	}
}

// required lists the identity fields that a requirement sets.
func required(req shared.Requirement) []shared.IdentityField {
	fields := shared.Identity{
		ModelRevision:     req.ModelRevision,
		Precision:         req.Precision,
		TokenizerRevision: req.TokenizerRevision,
		LayoutRevision:    req.LayoutRevision,
		SlotRevision:      req.SlotRevision,
	}.Fields()
	return slices.DeleteFunc(fields, func(f shared.IdentityField) bool { return f.Value == "" })
}

// valueOf is one field of an identity by its name.
func valueOf(id shared.Identity, name string) string {
	for _, f := range id.Fields() {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// misses lists the wanted fields that an identity does not have so.
func misses(id shared.Identity, wanted []shared.IdentityField) []shared.IdentityField {
	var out []shared.IdentityField
	for _, f := range wanted {
		if valueOf(id, f.Name) != f.Value {
			out = append(out, f)
		}
	}
	return out
}

// possible reports whether a partly known identity may turn out as wanted.
func possible(id shared.Identity, wanted []shared.IdentityField) bool {
	return !slices.ContainsFunc(wanted, func(f shared.IdentityField) bool {
		v := valueOf(id, f.Name)
		return v != "" && v != f.Value
	})
}

func candidate(d *declaration) shared.Candidate {
	return shared.Candidate{SlotID: d.slot.spec.SlotID, Model: d.slot.spec.Model, Identity: d.identity}
}

// asked is a requirement as people would say it.
func asked(req shared.Requirement) string {
	var parts []string
	if req.SlotID != "" {
		parts = append(parts, "slot "+req.SlotID)
	}
	if req.Model != "" {
		parts = append(parts, "model "+req.Model)
	}
	for _, f := range required(req) {
		parts = append(parts, f.Name+" "+shared.ShortRevision(f.Value))
	}
	if len(parts) == 0 {
		return "no name and no field"
	}
	return strings.Join(parts, ", ")
}

// discriminators is the order in which fields are tried to tell identities
// apart: what people know by heart comes first.
var discriminators = []string{"precision", "model_revision", "tokenizer_revision", "layout_revision", "slot_revision"}

// ambiguity lists the identities that a requirement may mean, and the field, or
// the fields, in which they differ.
func ambiguity(req shared.Requirement, found []*declaration) error {
	e := &shared.Error{Op: "resolve", Kind: shared.KindAmbiguous}
	var said []string
	for _, d := range found {
		e.Candidates = append(e.Candidates, candidate(d))
	}
	e.Field = strings.Join(tellApart(found), ", ")
	for _, d := range found {
		var values []string
		for _, name := range tellApart(found) {
			text := name + " " + shared.ShortRevision(valueOf(d.identity, name))
			if name == "slot_revision" {
				text += ": " + shared.DescribeAdapters(d.slot.spec.Adapters)
			}
			values = append(values, text)
		}
		said = append(said, fmt.Sprintf("slot %s (%s)", d.slot.spec.SlotID, strings.Join(values, ", ")))
	}
	e.Message = fmt.Sprintf("%s could mean %s; name the slot or the %s", asked(req), strings.Join(said, " or "), e.Field)
	return e
}

// tellApart finds one field that all identities differ in, else all fields in
// which any two do.
func tellApart(found []*declaration) []string {
	identities := map[shared.Identity]bool{}
	for _, d := range found {
		identities[d.identity] = true
	}
	var differing []string
	for _, name := range discriminators {
		values := map[string]bool{}
		for id := range identities {
			values[valueOf(id, name)] = true
		}
		if len(values) == len(identities) {
			return []string{name}
		}
		if len(values) > 1 {
			differing = append(differing, name)
		}
	}
	return differing
}

// declarationError is what a request gets that only a slot in error could serve.
func declarationError(d *declaration) error {
	e := shared.AsError(d.err, "resolve", d.slot.spec.SlotID)
	e.Candidates = nil
	return e
}

// notFound names the identity that comes nearest, and the first field in which
// it is not what was asked for. Slots whose file could not be read might have
// been meant, so they are named too.
func notFound(req shared.Requirement, wanted []shared.IdentityField, others, doubtful []*declaration) error {
	e := &shared.Error{Op: "resolve", Kind: shared.KindNotFound}
	if len(others) == 0 {
		e.Message = "no slot is declared for " + asked(req)
		return e
	}
	type near struct {
		d        *declaration
		missing  []shared.IdentityField
		distance int
	}
	nears := make([]near, len(others))
	for i, d := range others {
		n := near{d: d, missing: misses(d.identity, wanted)}
		first := n.missing[0]
		n.distance = levenshtein.Distance(first.Value, valueOf(d.identity, first.Name), nil)
		nears[i] = n
	}
	slices.SortStableFunc(nears, func(a, b near) int {
		return cmp.Or(cmp.Compare(len(a.missing), len(b.missing)), cmp.Compare(a.distance, b.distance))
	})
	best := nears[0]
	e.Field = best.missing[0].Name
	for _, n := range nears[:min(len(nears), maxCandidates)] {
		e.Candidates = append(e.Candidates, candidate(n.d))
	}
	e.Message = fmt.Sprintf("no slot has %s; the nearest is slot %s, whose %s is %s (%s)",
		asked(req), best.d.slot.spec.SlotID, e.Field, shared.ShortRevision(valueOf(best.d.identity, e.Field)), best.d.identity)
	for _, d := range doubtful {
		e.Message += fmt.Sprintf("; slot %s is in error: %s", d.slot.spec.SlotID, d.err.Text())
	}
	return e
}

// maxCandidates bounds the alternatives that an error lists.
const maxCandidates = 5

// unknownName names the known names that come nearest.
func (s *snapshot) unknownName(op, field, name string) error {
	type near struct {
		name     string
		index    int
		distance int
	}
	var nears []near
	seen := map[string]bool{}
	add := func(known string, index int) {
		if !seen[known] && known != "" {
			seen[known] = true
			nears = append(nears, near{known, index, levenshtein.Distance(name, known, nil)})
		}
	}
	for known, i := range s.names.slots {
		add(known, i)
	}
	for known, i := range s.names.aliases {
		add(known, i)
	}
	for known, is := range s.names.replicas {
		add(known, is[0])
	}
	if field == "model" {
		for known, is := range s.names.models {
			add(known, is[0])
		}
	}
	slices.SortFunc(nears, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	e := &shared.Error{Op: op, Kind: shared.KindNotFound, Field: field}
	var said []string
	for _, n := range nears[:min(len(nears), 3)] {
		said = append(said, n.name)
		e.Candidates = append(e.Candidates, candidate(&s.slots[n.index]))
	}
	e.Message = fmt.Sprintf("no slot, alias or model is called %q", name)
	if field == "slot_id" {
		e.Message = fmt.Sprintf("no slot or alias is called %q", name)
	}
	if len(said) > 0 {
		e.Message += "; the nearest are " + strings.Join(said, ", ")
	}
	return e
}
