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
		var names []string
		var text strings.Builder
		for len(names) < 9 { // the request and its phases, in one batch or two
			select {
			case m := <-received:
				for _, span := range m.ResourceSpans[0].ScopeSpans[0].Spans {
					names = append(names, span.Name)
				}
				text.WriteString(m.String())
			case <-time.After(patience):
				t.Fatalf("no more traces come than %q", names)
			}
		}
		if names[8] != "chat storyteller" || !strings.Contains(text.String(), port) || strings.Contains(text.String(), "fox") {
			t.Errorf("spans %q: %s", names, &text)
		}
	}
}
