package supervisor

import (
	"context"
	"maps"
	"slices"

	"github.com/firstframe/firstframe/shared"
)

// Source reads the configuration that a supervisor serves. When one of its
// remarks is more than a warning, the declaration counts for nothing.
type Source func(ctx context.Context) (shared.Declaration, []shared.Diagnostic)

// reloaded is how a reload ended.
type reloaded struct {
	shared.Reload
	err error
}

// Plan says what a declaration would change of the running slots.
func (s *Supervisor) Plan(_ context.Context, d shared.Declaration) (shared.Plan, error) {
	if err := s.check(d); err != nil {
		return shared.Plan{}, shared.AsError(err, "plan", "")
	}
	return s.registry.current.Load().plan(d), nil
}

// Reload reads the configuration again and makes it the present one. A
// configuration with errors changes nothing. Slots that are declared as before
// keep their processes; a request for a slot that gets another one waits for it.
func (s *Supervisor) Reload(ctx context.Context) (shared.Reload, error) {
	if s.cfg.Source == nil {
		return shared.Reload{}, &shared.Error{Op: "reload", Kind: shared.KindUnsupported, Message: "this supervisor was not started from a configuration that could be read again"}
	}
	answer := make(chan reloaded, 1)
	select {
	case s.reloads <- answer:
	case <-ctx.Done():
		return shared.Reload{}, shared.AsError(context.Cause(ctx), "reload", "")
	case <-s.ctx.Done():
		return shared.Reload{}, shared.AsError(shuttingDown(), "reload", "")
	}
	select {
	case r := <-answer:
		return r.Reload, r.err
	case <-ctx.Done():
		return shared.Reload{}, shared.AsError(context.Cause(ctx), "reload", "")
	case <-s.ctx.Done():
		return shared.Reload{}, shared.AsError(shuttingDown(), "reload", "")
	}
}

// reloader is the goroutine that reads the configuration: one after the other,
// so that what was read later is also applied later.
func (s *Supervisor) reloader() {
	for {
		select {
		case answer := <-s.reloads:
			r, err := s.reload()
			answer <- reloaded{r, err}
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Supervisor) reload() (shared.Reload, error) {
	d, diags := s.cfg.Source(s.ctx)
	res := shared.Reload{Diagnostics: diags}
	usable := true
	for _, diag := range diags {
		if !diag.Warning {
			usable = false
		}
		s.logDiagnostic(diag)
	}
	if !usable {
		s.cfg.Logger.Error("the configuration was not applied, nothing has changed", "remarks", len(diags))
		return res, nil
	}
	if err := s.check(d); err != nil {
		s.cfg.Logger.Error("the configuration was not applied, nothing has changed", "error", err)
		return shared.Reload{}, shared.AsError(err, "reload", "")
	}
	plan, err := s.apply(d)
	if err != nil {
		return shared.Reload{}, shared.AsError(err, "reload", "")
	}
	res.Applied, res.Plan = true, plan
	s.logPlan(plan)
	return res, nil
}

// check holds a declaration against the rules that the first one was held against.
func (s *Supervisor) check(d shared.Declaration) error {
	cfg := s.cfg
	cfg.Slots, cfg.Aliases = d.Slots, d.Aliases
	return cfg.Validate()
}

// apply hands a declaration to the registry and declares the new slots.
func (s *Supervisor) apply(d shared.Declaration) (shared.Plan, error) {
	answer := make(chan replaced, 1)
	select {
	case s.registry.replacements <- replacement{
		declaration: d, answer: answer,
		newSlot: func(spec shared.SlotSpec) *slot { return newSlot(spec, s.env) },
	}:
	case <-s.ctx.Done():
		return shared.Plan{}, shuttingDown()
	}
	r := <-answer // the registry answers everything it has taken
	s.closing.RLock()
	if s.ctx.Err() == nil {
		s.declarer.all(r.fresh)
	}
	s.closing.RUnlock()
	s.watchers.notify()
	return r.plan, nil
}

func (s *Supervisor) logDiagnostic(d shared.Diagnostic) {
	log := s.cfg.Logger.Error
	if d.Warning {
		log = s.cfg.Logger.Warn
	}
	log("configuration: "+d.Summary, "file", d.File, "line", d.Line, "column", d.Column, "detail", d.Detail)
}

// logPlan writes one line for each slot that does not stay as it was.
func (s *Supervisor) logPlan(p shared.Plan) {
	for _, c := range p.Slots {
		if c.Action == shared.ActionKeep {
			continue
		}
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, f.Name)
		}
		s.cfg.Logger.Info("slot declared anew", "slot", c.SlotID, "action", string(c.Action), "fields", fields)
	}
	s.cfg.Logger.Info("configuration applied", "slots", p.String(), "aliases", len(p.Aliases))
}

// plan compares a declaration with the slots that there are.
func (s *snapshot) plan(d shared.Declaration) shared.Plan {
	var p shared.Plan
	declared := map[string]bool{}
	for _, spec := range d.Slots {
		declared[spec.SlotID] = true
		change := shared.SlotChange{SlotID: spec.SlotID, Action: shared.ActionAdd}
		if at, ok := s.names.slots[spec.SlotID]; ok {
			change.Action = shared.ActionKeep
			if change.Fields = s.slots[at].slot.spec.Changes(spec); len(change.Fields) > 0 {
				change.Action = shared.ActionChange
			}
		}
		p.Slots = append(p.Slots, change)
	}
	for _, old := range s.slots {
		if id := old.slot.spec.SlotID; !declared[id] {
			p.Slots = append(p.Slots, shared.SlotChange{SlotID: id, Action: shared.ActionRemove})
		}
	}
	was := make(map[string]string, len(s.names.aliases))
	for alias, at := range s.names.aliases {
		was[alias] = s.slots[at].slot.spec.SlotID
	}
	p.Aliases = aliasChanges(was, d.Aliases)
	return p
}

func aliasChanges(was, is map[string]string) []shared.AliasChange {
	var changes []shared.AliasChange
	both := maps.Clone(was)
	maps.Copy(both, is)
	for _, alias := range slices.Sorted(maps.Keys(both)) {
		c := shared.AliasChange{Alias: alias, Old: was[alias], New: is[alias]}
		switch {
		case c.Old == c.New:
			continue
		case c.Old == "":
			c.Action = shared.ActionAdd
		case c.New == "":
			c.Action = shared.ActionRemove
		default:
			c.Action = shared.ActionChange
		}
		changes = append(changes, c)
	}
	return changes
}
