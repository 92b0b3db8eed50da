package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestTracesReachTheCollector has the confined proxy of serve, and one started
// by hand, send their spans to a collector that is known by a name.
func TestTracesReachTheCollector(t *testing.T) {
	received := make(chan *collector.ExportTraceServiceRequest, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("not an export of traces: %s, %v", r.URL, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		received <- &m
	}))
	defer srv.Close()
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://localhost:" + at.Port()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint) // for the one started by hand
	s := serve(t, web(t, "")+fmt.Sprintf("telemetry { otlp_endpoint = %q }\n", endpoint))
	for _, address := range []string{s.url(), s.proxy()} {
		newEdge(t, address).stream(chat("Tell me a story about a fox.", 3))
		_, port, _ := strings.Cut(strings.TrimPrefix(address, "http://"), ":")
		select {
		case m := <-received:
			spans := m.ResourceSpans[0].ScopeSpans[0].Spans
			var all []string
			for _, span := range spans {
				all = append(all, span.Name)
			}
			text := m.String()
			if len(spans) != 9 || !strings.Contains(strings.Join(all, " "), "chat storyteller") || !strings.Contains(text, port) ||
				strings.Contains(text, "fox") {
				t.Errorf("spans %q: %s", all, text)
			}
		case <-time.After(patience):
			t.Fatal("no trace has come")
		}
	}
}
