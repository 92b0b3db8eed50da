package proxy

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/firstframe/firstframe/shared"
)

// firstFrameBuckets are the usual buckets for time to first token with finer
// ones below, since routing and lookup take microseconds.
var firstFrameBuckets = []float64{.0001, .00025, .0005, .001, .005, .01, .02, .04, .06, .08, .1, .25, .5,
	.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}

// metrics are the proxy's own series and, at each scrape, the slots'.
type metrics struct {
	registry   *prometheus.Registry
	running    prometheus.Gauge
	firstFrame *prometheus.HistogramVec
	phase      *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	failures   *prometheus.CounterVec
}

func newMetrics(f shared.Frontend, version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "firstframe_http_requests_running", Help: "Requests being answered by this proxy.",
		}),
		firstFrame: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "firstframe_first_frame_seconds", Buckets: firstFrameBuckets,
			Help: "Request parsed to first text flushed, streaming responses only.",
		}, []string{"slot", "model"}),
		phase: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "firstframe_first_frame_phase_seconds", Buckets: firstFrameBuckets,
			Help: "The phases of the first frame; with other they add up to it.",
		}, []string{"slot", "phase"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "firstframe_request_duration_seconds", Buckets: firstFrameBuckets,
			Help: "Request parsed to result, streaming and not.",
		}, []string{"slot", "stream", "finish_reason"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firstframe_tokens_total", Help: "Tokens by type: prompt, cached, completion.",
		}, []string{"slot", "type"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "firstframe_request_failures_total", Help: "Requests that ended without a result, by error kind.",
		}, []string{"kind"}),
	}
	m.registry.MustRegister(m.running, m.firstFrame, m.phase, m.duration, m.tokens, m.failures,
		&slotCollector{frontend: f}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "firstframe_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// observe counts one ended request.
func (m *metrics) observe(stream bool, results []shared.Measured, err error) {
	if err != nil {
		m.failures.WithLabelValues(shared.KindOf(err).String()).Inc()
		return
	}
	for _, r := range results {
		if stream && r.FirstChunk > 0 {
			m.firstFrame.WithLabelValues(r.SlotID, r.Model).Observe(r.FirstChunk.Seconds())
			for _, d := range r.Phases.List() {
				m.phase.WithLabelValues(r.SlotID, string(d.Phase)).Observe(d.Duration.Seconds())
			}
		}
		streamed := "false"
		if stream {
			streamed = "true"
		}
		m.duration.WithLabelValues(r.SlotID, streamed, r.FinishReason).Observe(r.FullResponse.Seconds())
		m.tokens.WithLabelValues(r.SlotID, "prompt").Add(float64(r.Usage.PromptTokens))
		m.tokens.WithLabelValues(r.SlotID, "cached").Add(float64(r.Usage.CachedTokens))
		m.tokens.WithLabelValues(r.SlotID, "completion").Add(float64(r.Usage.CompletionTokens))
	}
}
