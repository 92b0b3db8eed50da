package shared

import (
	"time"

	pb "github.com/firstframe/firstframe/shared/firstframepb"
)

func toDeclaration(d Declaration) *pb.Declaration {
	m := &pb.Declaration{Aliases: d.Aliases}
	for _, s := range d.Slots {
		m.Slots = append(m.Slots, toSpec(s))
	}
	return m
}

func fromDeclaration(m *pb.Declaration) Declaration {
	d := Declaration{Aliases: m.GetAliases()}
	for _, s := range m.GetSlots() {
		d.Slots = append(d.Slots, fromSpec(s))
	}
	return d
}

func toChanges(p Plan) *pb.PlanResult {
	m := &pb.PlanResult{}
	for _, s := range p.Slots {
		change := &pb.SlotChange{SlotId: s.SlotID, Action: string(s.Action)}
		for _, f := range s.Fields {
			change.Fields = append(change.Fields, &pb.FieldChange{Name: f.Name, Old: validText(f.Old), New: validText(f.New)})
		}
		m.Slots = append(m.Slots, change)
	}
	for _, a := range p.Aliases {
		m.Aliases = append(m.Aliases, &pb.AliasChange{Alias: a.Alias, Action: string(a.Action), Old: a.Old, New: a.New})
	}
	return m
}

func fromChanges(m *pb.PlanResult) Plan {
	var p Plan
	for _, s := range m.GetSlots() {
		change := SlotChange{SlotID: s.GetSlotId(), Action: PlanAction(s.GetAction())}
		for _, f := range s.GetFields() {
			change.Fields = append(change.Fields, FieldChange{Name: f.GetName(), Old: f.GetOld(), New: f.GetNew()})
		}
		p.Slots = append(p.Slots, change)
	}
	for _, a := range m.GetAliases() {
		p.Aliases = append(p.Aliases, AliasChange{Alias: a.GetAlias(), Action: PlanAction(a.GetAction()), Old: a.GetOld(), New: a.GetNew()})
	}
	return p
}

func toReload(r Reload) *pb.ReloadResult {
	m := &pb.ReloadResult{Applied: r.Applied, Plan: toChanges(r.Plan)}
	for _, d := range r.Diagnostics {
		m.Diagnostics = append(m.Diagnostics, &pb.Diagnostic{
			Warning: d.Warning,
			Summary: validText(d.Summary),
			Detail:  validText(d.Detail),
			File:    validText(d.File),
			Line:    int32(d.Line),
			Column:  int32(d.Column),
			Text:    validText(d.Text),
		})
	}
	return m
}

func fromReload(m *pb.ReloadResult) Reload {
	r := Reload{Applied: m.GetApplied(), Plan: fromChanges(m.GetPlan())}
	for _, d := range m.GetDiagnostics() {
		r.Diagnostics = append(r.Diagnostics, Diagnostic{
			Warning: d.GetWarning(),
			Summary: d.GetSummary(),
			Detail:  d.GetDetail(),
			File:    d.GetFile(),
			Line:    int(d.GetLine()),
			Column:  int(d.GetColumn()),
			Text:    d.GetText(),
		})
	}
	return r
}

func toActivity(a Activity) *pb.ActivityResult {
	m := &pb.ActivityResult{Tokens: a.Tokens}
	for _, r := range a.Requests {
		m.Requests = append(m.Requests, &pb.RequestRecord{
			Number:         r.Number,
			RequestId:      validText(r.RequestID),
			SlotId:         r.SlotID,
			Model:          r.Model,
			Outcome:        r.Outcome,
			Error:          r.Error,
			SlotHit:        r.SlotHit,
			Usage:          toUsage(r.Usage),
			Phases:         toPhases(r.Phases),
			FirstChunkNs:   int64(r.FirstChunk),
			FullResponseNs: int64(r.FullResponse),
			AgoNs:          int64(r.Ago),
		})
	}
	return m
}

func fromActivity(m *pb.ActivityResult) Activity {
	a := Activity{Tokens: m.GetTokens()}
	for _, r := range m.GetRequests() {
		a.Requests = append(a.Requests, RequestRecord{
			Number:       r.GetNumber(),
			RequestID:    r.GetRequestId(),
			SlotID:       r.GetSlotId(),
			Model:        r.GetModel(),
			Outcome:      r.GetOutcome(),
			Error:        r.GetError(),
			SlotHit:      r.GetSlotHit(),
			Usage:        fromUsage(r.GetUsage()),
			Phases:       fromPhases(r.GetPhases()),
			FirstChunk:   time.Duration(r.GetFirstChunkNs()),
			FullResponse: time.Duration(r.GetFullResponseNs()),
			Ago:          time.Duration(r.GetAgoNs()),
		})
	}
	return a
}
