package proxy

import (
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// choicesForm is how the two endpoints write that can give several choices.
type choicesForm struct {
	shape shape
	head  envelope
	usage bool // a streamed answer ends with the token counts
}

func newChoicesForm(sh shape, h answerHead, usage bool) *choicesForm {
	return &choicesForm{shape: sh, usage: usage, head: envelope{
		ID: sh.idPrefix() + h.requestID, Object: sh.object(h.stream), Created: h.created.Unix(), Model: h.model,
	}}
}

func (f *choicesForm) id() string { return f.head.ID }

func (f *choicesForm) delta(index int, p piece) []event {
	v := f.head
	v.Choices = []any{f.shape.delta(index, p)}
	return []event{{data: v}}
}

func (f *choicesForm) finish(index int, m shared.Measured) []event {
	v := f.served(m)
	v.Choices = []any{f.shape.finish(index, m.FinishReason)}
	return []event{{data: v}}
}

// served is the envelope once it is known what answers.
func (f *choicesForm) served(m shared.Measured) envelope {
	v := f.head
	v.Model, v.SystemFingerprint = modelID(m.Model, m.Identity), fingerprint(m.Identity)
	return v
}

func (f *choicesForm) end(results []shared.Measured) []event {
	v := f.served(results[0])
	v.Choices, v.Timings = []any{}, toTimings(results[0])
	if f.usage {
		v.Usage = totalUsage(results)
	}
	return []event{{data: v}, {data: streamDone}}
}

func (f *choicesForm) failed(err error) []event {
	_, body := describe(err)
	return []event{{data: body}}
}

func (f *choicesForm) whole(results []shared.Measured, pieces []piece) any {
	v := f.served(results[0])
	v.Choices = make([]any, len(results))
	for i, m := range results {
		v.Choices[i] = f.shape.whole(i, pieces[i], m.FinishReason)
	}
	v.Usage, v.Timings = totalUsage(results), toTimings(results[0])
	return v
}

func totalUsage(results []shared.Measured) *usageJSON {
	var usage usageJSON
	for _, m := range results {
		usage.add(m.Usage)
	}
	return &usage
}

// fingerprint stands for the whole identity in OpenAI's field for it.
func fingerprint(id shared.Identity) string {
	h := shared.HashFields("firstframe/fingerprint/v1", id.ModelRevision, id.Precision,
		id.TokenizerRevision, id.LayoutRevision, id.SlotRevision)
	return "fp_" + strings.TrimPrefix(h, "sha256:")[:16]
}
