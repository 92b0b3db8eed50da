package proxy

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/firstframe/firstframe/shared"
)

// spanInfo is what the span of one request says. It holds no text of prompts or
// answers, nor of error messages, which may quote them.
type spanInfo struct {
	outcome
	operation string // as the conventions for generative AI name it
	arrived   time.Time
	asked     shared.Requirement
	maxTokens int
	choices   int
	stream    bool
	embedded  shared.EmbedResult
}

// outcome is how a request has ended.
type outcome struct {
	parsed  time.Time // when its clock started
	id      string    // of the response
	results []shared.Measured
	status  int
	err     error
}

// finish makes the spans of a request that has ended. They carry the times at
// which things happened, so that a request pays for its spans after its last byte.
func (t *traces) finish(r *http.Request, in spanInfo) {
	if t == nil {
		return
	}
	ended := time.Now()
	name := in.operation
	if model := askedModel(in.asked); model != "" {
		name += " " + model[:min(len(model), maxAttribute)]
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(in.arrived))
	defer span.End(trace.WithTimestamp(ended))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(in.attributes(r)...)
	if in.err != nil && in.status != http.StatusAccepted {
		kind := errorName(in.err)
		span.SetStatus(codes.Error, kind)
		span.SetAttributes(attribute.String("error.type", kind))
	}
	if len(in.results) == 0 || in.results[0].FirstChunk == 0 {
		return
	}
	at := in.parsed
	for _, d := range inTime(in.results[0].Phases) {
		_, phase := t.tracer.Start(ctx, string(d.Phase), trace.WithTimestamp(at), trace.WithAttributes(
			attribute.String("firstframe.phase_group", string(d.Phase.Group()))))
		at = at.Add(d.Duration)
		phase.End(trace.WithTimestamp(at))
	}
	span.AddEvent("first_chunk", trace.WithTimestamp(at))
}

// inTime gives the phases so that the flush, whose end is known, ends where the
// first chunk does: what no phase accounts for comes before it.
func inTime(p shared.Phases) []shared.PhaseDuration {
	all := p.List()
	last := len(all) - 1
	all[last-1], all[last] = all[last], all[last-1]
	return all
}

// errorName is the kind of an error, or the code of one that the HTTP side found.
func errorName(err error) string {
	_, body := describe(err)
	return body.Error.Code
}

func (in spanInfo) attributes(r *http.Request) []attribute.KeyValue {
	host, port := r.Host, ""
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		host, port = h, p
	}
	all := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", in.operation),
		attribute.String("gen_ai.provider.name", "firstframe"),
		attribute.String("server.address", host),
		attribute.String("http.request.method", r.Method),
		attribute.String("url.path", r.URL.Path),
		attribute.Int("http.response.status_code", in.status),
	}
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, attribute.Int("server.port", n))
	}
	if model := askedModel(in.asked); model != "" {
		all = append(all, attribute.String("gen_ai.request.model", model))
	}
	if in.id != "" {
		all = append(all, attribute.String("gen_ai.response.id", in.id), attribute.Bool("firstframe.stream", in.stream))
	}
	if in.maxTokens > 0 {
		all = append(all, attribute.Int("gen_ai.request.max_tokens", in.maxTokens))
	}
	if in.choices > 1 {
		all = append(all, attribute.Int("gen_ai.request.choice.count", in.choices))
	}
	if e := in.embedded; e.SlotID != "" {
		all = append(all, served(e.SlotID, e.Model, e.Identity)...)
		all = append(all, attribute.Int("gen_ai.usage.input_tokens", e.PromptTokens))
	}
	if in.err != nil || len(in.results) == 0 {
		return all
	}
	var usage usageJSON
	var reasons []string
	for _, m := range in.results {
		usage.add(m.Usage)
		reasons = append(reasons, m.FinishReason)
	}
	first := in.results[0]
	all = append(all, served(first.SlotID, first.Model, first.Identity)...)
	return append(all,
		attribute.Int("gen_ai.usage.input_tokens", usage.PromptTokens),
		attribute.Int("gen_ai.usage.output_tokens", usage.CompletionTokens),
		attribute.Int("gen_ai.usage.cache_read.input_tokens", usage.PromptTokensDetails.CachedTokens),
		attribute.StringSlice("gen_ai.response.finish_reasons", reasons),
		attribute.Bool("firstframe.slot_hit", first.SlotHit),
		attribute.Float64("firstframe.first_chunk_ms", shared.Milliseconds(first.FirstChunk)),
		attribute.Float64("firstframe.full_response_ms", shared.Milliseconds(first.FullResponse)),
	)
}

// served says what answered.
func served(slot, model string, id shared.Identity) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("gen_ai.response.model", modelID(model, id)),
		attribute.String("firstframe.slot_id", slot),
		attribute.String("firstframe.model_revision", id.ModelRevision),
		attribute.String("firstframe.precision", id.Precision),
		attribute.String("firstframe.layout_revision", id.LayoutRevision),
	}
}
