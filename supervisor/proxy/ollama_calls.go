package proxy

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// ollamaFrontend is the supervisor for Ollama's clients: it looks whether the slot
// can do what they ask for, and gives calls of tools whole, since their
// protocol has no pieces of them. The time either takes is a part of the phases.
type ollamaFrontend struct {
	shared.Frontend
	context int  // 0 means whatever there is
	thinks  bool // the model has to be one that thinks
}

// Generate implements shared.Frontend.
func (f ollamaFrontend) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	start := time.Now()
	if err := f.check(ctx, req.Requirement); err != nil {
		return shared.Result{}, err
	}
	joined := &callJoiner{emit: emit, routed: time.Since(start)}
	res, err := f.Frontend.Generate(ctx, req, joined.chunk)
	if err != nil {
		return res, err
	}
	return res, joined.end()
}

// check refuses what the slots cannot do.
func (f ollamaFrontend) check(ctx context.Context, r shared.Requirement) error {
	if f.context == 0 && !f.thinks {
		return nil
	}
	slots, err := slotsOf(ctx, f.Frontend, r)
	if err != nil {
		return err
	}
	if s := slots[0]; f.thinks && s.File.Architecture != "" && !s.File.Thinking {
		return badRequest("unsupported_parameter", "think",
			"the model of slot %s does not support thinking: its chat template has no marks for it", s.SlotID)
	}
	return f.checkContext(slots)
}

// checkContext refuses what the slots cannot hold: their context is declared with
// them, and a client that counts on more would lose what it says without a word.
func (f ollamaFrontend) checkContext(slots []shared.SlotInfo) error {
	most := 0
	for _, s := range slots {
		tokens := contextOf(s)
		if tokens == 0 || tokens >= f.context {
			return nil // one that says nothing will tell when it is loaded
		}
		most = max(most, tokens)
	}
	return badRequest("context_length_exceeded", "num_ctx",
		"num_ctx is %d, and the context of slot %s has %d tokens: ask for less or declare more with context { tokens }", f.context, slots[0].SlotID, most)
}

// slotsOf are the slots that a requirement means.
func slotsOf(ctx context.Context, f shared.Frontend, r shared.Requirement) ([]shared.SlotInfo, error) {
	found, err := f.Resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	list, err := f.ListSlots(ctx)
	if err != nil {
		return nil, err
	}
	var slots []shared.SlotInfo
	for _, id := range found.SlotIDs {
		for _, s := range list.Slots {
			if s.SlotID == id {
				slots = append(slots, s)
			}
		}
	}
	if len(slots) == 0 {
		return nil, shared.Errorf(shared.KindUnavailable, "the slots of %s have just gone", found.Model)
	}
	return slots, nil
}

// contextOf is the context that a slot has or is going to have, 0 when it is not
// known yet.
func contextOf(s shared.SlotInfo) int {
	if s.ContextTokens > 0 {
		return s.ContextTokens
	}
	return s.File.TrainedTokens
}

// callJoiner holds the pieces of a call back until the call is whole.
type callJoiner struct {
	emit   func(shared.Chunk) error
	routed time.Duration
	slot   string
	open   *shared.ToolCall
	phases *shared.Phases // until a chunk has taken them along
	since  time.Time      // when they came
}

func (j *callJoiner) chunk(c shared.Chunk) error {
	j.slot = c.SlotID
	if c.Phases != nil {
		p := *c.Phases
		p.Route += j.routed
		j.phases, j.since, c.Phases = &p, time.Now(), nil
	}
	var whole []shared.ToolCall
	for _, piece := range c.ToolCalls {
		switch {
		case j.open == nil:
			j.open = &piece
		case piece.Index == j.open.Index:
			j.open.Arguments += piece.Arguments
		default:
			whole = append(whole, *j.open)
			j.open = &piece
		}
	}
	held := len(c.ToolCalls) > 0
	c.ToolCalls = whole
	if held && !c.HasContent() && len(c.Logprobs) == 0 && c.Progress == nil {
		return nil
	}
	return j.pass(c)
}

// pass hands on a chunk. The first with content takes the phases along: what was
// held back made the client wait for its first text.
func (j *callJoiner) pass(c shared.Chunk) error {
	if j.phases != nil && c.HasContent() {
		j.phases.DecodeFirstToken += time.Since(j.since)
		c.Phases, j.phases = j.phases, nil
	}
	return j.emit(c)
}

// end gives the last call, unless it was cut off: half an object is none.
func (j *callJoiner) end() error {
	if j.open == nil || !jsontext.Value(j.open.Arguments).IsValid() {
		return nil
	}
	return j.pass(shared.Chunk{SlotID: j.slot, ToolCalls: []shared.ToolCall{*j.open}})
}
