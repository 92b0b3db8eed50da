package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/firstframe/firstframe/shared"
)

// otlp is a collector in this process.
type otlp struct {
	url   string
	bytes chan []byte // the body of each export
}

func newOTLP(t testing.TB) otlp {
	t.Helper()
	o := otlp{bytes: make(chan []byte, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unpacked
		}
		all, err := io.ReadAll(body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
			http.Error(w, "no export", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		o.bytes <- all
	}))
	t.Cleanup(srv.Close)
	o.url = srv.URL
	return o
}

// serveTraced runs a server as the program does; stop ends it.
func serveTraced(t testing.TB, cfg Config, f *fake) (c client, stop func() error) {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s, err := New(cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		http.DefaultClient.CloseIdleConnections()
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return client{t, "http://" + listener.Addr().String()}, stop
}

// spans decodes what comes until there are n of them.
func (o otlp) spans(t testing.TB, n int) (all []*tracepb.Span, raw []byte, resource []*common.KeyValue) {
	t.Helper()
	for len(all) < n {
		select {
		case body := <-o.bytes:
			raw = append(raw, body...)
			var m collector.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &m); err != nil {
				t.Fatal(err)
			}
			for _, rs := range m.ResourceSpans {
				resource = rs.Resource.Attributes
				for _, ss := range rs.ScopeSpans {
					all = append(all, ss.Spans...)
				}
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%d spans have come, want %d", len(all), n)
		}
	}
	return all, raw, resource
}

func attr(list []*common.KeyValue, key string) *common.AnyValue {
	for _, kv := range list {
		if kv.Key == key {
			return kv.Value
		}
	}
	return &common.AnyValue{}
}

func lengthOf(s *tracepb.Span) time.Duration {
	return time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
}

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	parentID = "b7ad6b7169203331"
)

func TestSpansOfARequest(t *testing.T) {
	o := newOTLP(t)
	c, stop := serveTraced(t, Config{OTLPEndpoint: o.url + "/", Version: "1.2.3"}, &fake{generate: func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		return tell("the-answer's-text")(ctx, req, emit)
	}})
	ask := strings.Replace(askStream, `"hi"`, `"the-prompt's-text"`, 1)
	r := c.chat(ask, "traceparent", "00-"+traceID+"-"+parentID+"-01", "tracestate", "vendor=x")
	frames := events(t, r.body)
	timings := parse(t, frames[len(frames)-2]).Timings
	spans, raw, resource := o.spans(t, 9)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(spans) != 9 || len(o.bytes) > 0 {
		t.Fatalf("%d spans, want one of the request and eight of its phases", len(spans))
	}
	if bytes.Contains(raw, []byte("-text")) {
		t.Error("text of the prompt or the answer in a trace")
	}
	if attr(resource, "service.name").GetStringValue() != "firstframe" || attr(resource, "service.version").GetStringValue() != "1.2.3" {
		t.Errorf("resource %v", resource)
	}
	i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.Kind == tracepb.Span_SPAN_KIND_SERVER })
	if i < 0 {
		t.Fatal("no server span")
	}
	server := spans[i]
	if server.Name != "chat story:Q8_0" || hexOf(server.TraceId) != traceID || hexOf(server.ParentSpanId) != parentID ||
		server.TraceState != "vendor=x" || server.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("server span %v", server)
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "story:Q8_0", "gen_ai.response.model": "story:Q8_0",
		"server.address": "127.0.0.1", "firstframe.slot_id": "q8", "firstframe.model_revision": identity("Q8_0").ModelRevision,
		"http.request.method": "POST", "url.path": "/v1/chat/completions",
	} {
		if got := attr(server.Attributes, key).GetStringValue(); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]int64{
		"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 4, "http.response.status_code": 200,
	} {
		if got := attr(server.Attributes, key).GetIntValue(); got != want {
			t.Errorf("%s is %d, want %d", key, got, want)
		}
	}
	reasons := attr(server.Attributes, "gen_ai.response.finish_reasons").GetArrayValue().GetValues()
	if len(reasons) != 1 || reasons[0].GetStringValue() != "stop" || attr(server.Attributes, "server.port").GetIntValue() == 0 {
		t.Errorf("finish reasons %v", reasons)
	}
	// The phases are those of the response, one after the other, and end where the
	// first chunk does.
	var sum time.Duration
	var previous *tracepb.Span
	for _, s := range spans {
		if s == server {
			continue
		}
		if hexOf(s.ParentSpanId) != hexOf(server.SpanId) || hexOf(s.TraceId) != traceID {
			t.Errorf("%s is not a child of the request", s.Name)
		}
		want := timings.PhaseMS[s.Name]
		if got := shared.Milliseconds(lengthOf(s)); got-want > 1e-6 || want-got > 1e-6 {
			t.Errorf("%s took %v ms in the trace and %v in the answer", s.Name, got, want)
		}
		if previous != nil && previous.EndTimeUnixNano != s.StartTimeUnixNano {
			t.Errorf("%s does not begin where %s ends", s.Name, previous.Name)
		}
		if s.StartTimeUnixNano < server.StartTimeUnixNano || s.EndTimeUnixNano > server.EndTimeUnixNano {
			t.Errorf("%s is not within the request", s.Name)
		}
		sum += lengthOf(s)
		previous = s
	}
	if previous.Name != "first_chunk_flush" || len(server.Events) != 1 || server.Events[0].TimeUnixNano != previous.EndTimeUnixNano {
		t.Errorf("the first chunk is not the end of %s: %v", previous.Name, server.Events)
	}
	if diff := shared.Milliseconds(sum) - timings.FirstChunkMS; diff > 1e-6 || diff < -1e-6 {
		t.Errorf("phases add up to %v, first chunk %v ms", sum, timings.FirstChunkMS)
	}
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, x := range b {
		s.WriteByte(digits[x>>4])
		s.WriteByte(digits[x&15])
	}
	return s.String()
}

func TestSpansOfWhatFails(t *testing.T) {
	o := newOTLP(t)
	c, stop := serveTraced(t, Config{OTLPEndpoint: o.url + "/v1/traces"}, &fake{generate: func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		switch {
		case req.OnMiss == shared.OnMissPending:
			return shared.Result{}, &shared.Error{Kind: shared.KindPending, SlotID: "q8"}
		case req.MaxTokens == 7:
			if _, err := tell("Once")(ctx, req, emit); err != nil {
				return shared.Result{}, err
			}
		}
		return shared.Result{}, shared.Errorf(shared.KindWorkerLost, "the worker ended after %q", req.Messages[0].Content)
	}})
	const secret = `{"model":"story:Q8_0","messages":[{"role":"user","content":"quoted-text"}]`
	c.chat(secret + `}`)                                                            // fails before the first byte
	c.chat(secret + `,"stream":true,"max_tokens":7}`)                               // and after it
	c.chat(secret + `,"n":-1}`)                                                     // cannot be parsed
	c.chat(strings.Replace(secret, ":Q8_0", "", 1) + `}`)                           // names no one model
	c.chat(secret+`}`, "Prefer", "respond-async")                                   // is no failure
	c.do("POST", "/v1/embeddings", `{"model":"gpt-4o-mini","input":"quoted-text"}`) // nor is this
	spans, raw, _ := o.spans(t, 6)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("quoted")) {
		t.Error("an error's text in a trace")
	}
	type row struct {
		name, kind string
		status     int64
	}
	var got []row
	for _, s := range spans {
		kind := attr(s.Attributes, "error.type").GetStringValue()
		if (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != (kind != "") || s.Status.GetMessage() != kind {
			t.Errorf("status %v with error.type %q", s.Status, kind)
		}
		got = append(got, row{s.Name, kind, attr(s.Attributes, "http.response.status_code").GetIntValue()})
	}
	want := []row{
		{"chat story:Q8_0", "worker_lost", 503},
		{"chat story:Q8_0", "worker_lost", 200},
		{"chat story:Q8_0", "invalid_value", 400},
		{"chat story", "model_ambiguous", 404},
		{"chat story:Q8_0", "", 202},
		{"embeddings gpt-4o-mini", "", 200},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestCollectorAway checks that a collector which takes connections and never
// answers, or is not there, costs no request and does not hold up the end.
func TestCollectorAway(t *testing.T) {
	stuck, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	gone, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for _, addr := range []net.Addr{stuck.Addr(), gone.Addr()} {
		c, stop := serveTraced(t, Config{OTLPEndpoint: "http://" + addr.String()}, &fake{})
		for range 3 * maxQueuedSpans / 9 / 100 {
			if all := events(t, c.chat(askStream).body); all[len(all)-1] != "[DONE]" {
				t.Errorf("with the collector away: %q", all)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("the end: %v", err)
		}
	}
}

func TestEndpointsOfCollectors(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:4318", "grpc://a:1", "http://", "http://u:secret@a", "http://a?key=secret", "://secret"} {
		_, err := New(Config{HTTPSpec: shared.HTTPSpec{Listen: "127.0.0.1:0"}, OTLPEndpoint: bad}, &fake{})
		if shared.KindOf(err) != shared.KindConfig || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
