package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkStream is what the proxy itself costs: one short stream over a kept
// connection, without a supervisor behind it.
func BenchmarkStream(b *testing.B) {
	c := start(b, Config{}, &fake{generate: tell("Once")})
	lines := bufio.NewReader(nil)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := http.Post(c.url+"/v1/chat/completions", "application/json", strings.NewReader(askStream))
		if err != nil {
			b.Fatal(err)
		}
		lines.Reset(resp.Body)
		if _, err := lines.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, lines); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
