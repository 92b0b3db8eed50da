package proxy

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/firstframe/firstframe/shared"
)

// Bounds of what traces may hold and of how long they may take.
const (
	maxQueuedSpans  = 8192
	maxBatchSpans   = 512
	maxAttribute    = 256 // bytes of one text
	sendEvery       = time.Second
	sendTimeout     = 5 * time.Second
	stopTracingTime = time.Second
)

// tracesURL is where traces go: as the standard's variable for the endpoint has
// it, an address without the path of traces stands for the collector as a whole.
func tracesURL(endpoint string) string {
	const path = "/v1/traces"
	endpoint = strings.TrimRight(endpoint, "/")
	if strings.HasSuffix(endpoint, path) {
		return endpoint
	}
	return endpoint + path
}

// traces sends spans of ended requests to a collector. A nil one does nothing.
type traces struct {
	provider *sdktrace.TracerProvider
	exporter *otlptrace.Exporter
	tracer   trace.Tracer
}

// startTraces starts the goroutine that sends spans; nothing waits for it. It is
// nil without an endpoint.
func startTraces(ctx context.Context, cfg Config) (*traces, error) {
	if cfg.OTLPEndpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(tracesURL(cfg.OTLPEndpoint)),
		otlptracehttp.WithTimeout(sendTimeout),
		// A batch that does not arrive is lost: what comes after it matters more.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot send traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "firstframe"),
		attribute.String("service.version", cfg.Version),
	), resource.WithFromEnv())
	if err != nil {
		return nil, shared.Errorf(shared.KindConfig, "cannot read the resource attributes of traces: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(&sender{SpanExporter: exporter, log: cfg.Logger},
			sdktrace.WithMaxQueueSize(maxQueuedSpans), sdktrace.WithMaxExportBatchSize(maxBatchSpans),
			sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendTimeout)),
	)
	return &traces{provider: provider, exporter: exporter, tracer: provider.Tracer("github.com/firstframe/firstframe/supervisor/proxy")}, nil
}

// stop sends what is queued, as far as the collector takes it in a moment.
func (t *traces) stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTracingTime)
	defer cancel()
	if t.provider.Shutdown(ctx) != nil {
		_ = t.exporter.Shutdown(ctx) // cuts off what is being sent
	}
}

// sender tells the log when the collector goes away and when it is back; the
// spans meanwhile are dropped.
type sender struct {
	sdktrace.SpanExporter
	log  hclog.Logger
	away atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !s.away.Swap(true):
		s.log.Warn("traces do not reach the collector and are dropped", "error", err)
	case err == nil && s.away.Swap(false):
		s.log.Info("traces reach the collector again")
	}
	return nil
}
