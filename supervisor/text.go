package supervisor

import (
	"context"
	"fmt"

	"github.com/firstframe/firstframe/shared"
)

// Detokenize turns token ids into text with the tokenizer of the slot that the
// requirement means.
func (s *Supervisor) Detokenize(ctx context.Context, req shared.DetokenizeRequest) (string, error) {
	var text string
	r := &request{op: "detokenize", requirement: req.Requirement, identity: req.Identity}
	err := s.serve(ctx, r, func(l *lease) error {
		req.Identity = r.target.identity
		var err error
		text, err = l.worker.Detokenize(l.ctx, req)
		return err
	})
	return text, err
}

// Embed turns texts into vectors on the slot that the requirement means.
func (s *Supervisor) Embed(ctx context.Context, req shared.EmbedRequest) (shared.EmbedResult, error) {
	if err := validateEmbed(req); err != nil {
		return shared.EmbedResult{}, err
	}
	var res shared.EmbedResult
	r := &request{op: "embed", requirement: req.Requirement, identity: req.Identity, onMiss: req.OnMiss, deadline: req.Deadline}
	err := s.serve(ctx, r, func(l *lease) error {
		req.Identity = r.target.identity
		var err error
		res, err = l.worker.Embed(l.ctx, req)
		if err == nil {
			err = checkIdentity(res.Identity, r.target.identity)
		}
		res.SlotID, res.Model = l.slot.spec.SlotID, l.slot.spec.Model
		return err
	})
	if err != nil {
		return shared.EmbedResult{}, err
	}
	return res, nil
}

// validateEmbed refuses what no worker could serve.
func validateEmbed(req shared.EmbedRequest) error {
	invalid := func(field, message string) error {
		return &shared.Error{Op: "embed", Kind: shared.KindInvalid, Field: field, Message: message}
	}
	switch {
	case len(req.Inputs) == 0:
		return invalid("input", "there is nothing to embed")
	case len(req.Inputs) > shared.MaxEmbedInputs:
		return invalid("input", fmt.Sprintf("%d inputs are more than %d", len(req.Inputs), shared.MaxEmbedInputs))
	case req.Deadline < 0:
		return invalid("deadline", "the deadline is negative")
	case !validOnMiss(req.OnMiss):
		return invalid("on_miss", "on_miss can be wait, pending or fail")
	}
	for i, in := range req.Inputs {
		if (in.Text == "") == (len(in.Tokens) == 0) {
			return invalid("input", fmt.Sprintf("input %d: exactly one of text and tokens has to be given", i))
		}
	}
	return nil
}
