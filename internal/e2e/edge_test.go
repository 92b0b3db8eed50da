package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// edge is a client of the HTTP side that keeps its connection.
type edge struct {
	t      testing.TB
	url    string
	client *http.Client
}

func newEdge(t testing.TB, url string) *edge {
	e := &edge{t: t, url: url, client: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// timings is what the last chunk of a stream tells.
type timings struct {
	PhaseMS      map[string]float64 `json:"phase_ms"`
	FirstChunkMS float64            `json:"first_chunk_ms"`
	CacheN       int                `json:"cache_n"`
	SlotHit      bool               `json:"slot_hit"`
	MissReason   string             `json:"miss_reason"`
	ActivationMS map[string]float64 `json:"activation_ms"`
}

// stream runs one request; first is the client's own time to the first byte of text.
func (e *edge) stream(body string) (t timings, first time.Duration) {
	e.t.Helper()
	start := time.Now()
	resp, err := e.client.Post(e.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	var last string
	for n := 0; ; {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if n++; n == 1 {
				first = time.Since(start)
			}
			if data != "[DONE]\n" {
				last = data
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
	var doc struct{ Timings *timings }
	if err := json.Unmarshal([]byte(last), &doc); err != nil || doc.Timings == nil {
		e.t.Fatalf("%v: %s %s", err, resp.Status, last)
	}
	return *doc.Timings, first
}

func chat(prompt string, n int) string {
	return fmt.Sprintf(`{"model":"storyteller","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, n, prompt)
}

func (e *edge) op(name, body string) {
	e.t.Helper()
	resp, err := e.client.Post(e.url+"/api/slots/"+name, "application/json", strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	if all, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: %s %s %v", name, resp.Status, all, err)
	}
}

// TestPhasesAddUpAtTheEdge sums the phases of 500 requests of all kinds.
func TestPhasesAddUpAtTheEdge(t *testing.T) {
	s := serve(t, web(t, ""))
	e := newEdge(t, s.url())
	kinds := map[string]int{}
	for i := range 500 {
		prompt := fmt.Sprint("Tell me a story about ", i, " foxes.")
		switch {
		case i%100 == 50:
			e.op("evict", `{"slot_id":"f16","drop_host":true}`)
		case i%50 == 25:
			e.op("evict", `{"slot_id":"f16"}`)
		case i%2 == 1:
			prompt = "Tell me the story about a fox again."
		}
		got, first := e.stream(chat(prompt, 1))
		var sum float64
		for _, ms := range got.PhaseMS {
			sum += ms
			if ms < 0 {
				t.Fatalf("request %d: a negative phase: %+v", i, got)
			}
		}
		if len(got.PhaseMS) != 8 || math.Abs(sum-got.FirstChunkMS) > 1e-6 || got.FirstChunkMS <= 0 {
			t.Fatalf("request %d: phases add up to %v of %v: %v", i, sum, got.FirstChunkMS, got.PhaseMS)
		}
		if client := shared.Milliseconds(first); got.FirstChunkMS-got.PhaseMS["first_chunk_flush"] > client {
			t.Fatalf("request %d: %v at the edge before the flush, %v at the client", i, got.FirstChunkMS, client)
		}
		switch {
		case !got.SlotHit && got.ActivationMS["prefetch"] > 0:
			kinds["cold"]++
		case !got.SlotHit:
			kinds["evicted"]++
		case got.MissReason == "":
			kinds["hit"]++
		default:
			kinds["miss"]++
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"cold", "evicted", "hit", "miss"} {
		if kinds[kind] < 5 {
			t.Errorf("only %d requests were %s", kinds[kind], kind)
		}
	}
}

// BenchmarkProxy measures what HTTP adds to the way of the command line, which
// is one RPC hop shorter, on a page hit of a resident slot, and how far the
// edge's own first chunk is from a client's stopwatch. Both ways take turns.
func BenchmarkProxy(b *testing.B) {
	s := serve(b, web(b, ""))
	e := newEdge(b, s.url())
	frontend, detach, err := supervisor.Attach(b.Context(), s.state, hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	defer detach()
	const prompt = "Tell me a story about a fox."
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	body, replies := chat(prompt, 1), bufio.NewReader(conn)
	ask := []byte(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	// The stopwatch is a bare connection: an HTTP library's own goroutines cost
	// about as much as what is measured.
	overHTTP := func() (edge, first time.Duration) {
		start := time.Now()
		if _, err := conn.Write(ask); err != nil {
			b.Fatal(err)
		}
		for last := ""; ; {
			line, err := replies.ReadString('\n')
			data, ok := strings.CutPrefix(line, "data: ")
			switch {
			case err != nil:
				b.Fatal(err)
			case line == "0\r\n": // the last chunk, and an empty line after it
				var doc struct{ Timings timings }
				if err := json.Unmarshal([]byte(last), &doc); err != nil {
					b.Fatalf("%v: %s", err, last)
				}
				_, err := replies.Discard(len("\r\n"))
				if err != nil {
					b.Fatal(err)
				}
				return time.Duration(doc.Timings.FirstChunkMS * float64(time.Millisecond)), first
			case ok && first == 0:
				first = time.Since(start)
			case ok && data != "[DONE]\n":
				last = data
			}
		}
	}
	line := func() time.Duration {
		start := time.Now()
		var first time.Duration
		_, err := shared.GenerateAtEdge(b.Context(), frontend, start, shared.GenerateRequest{
			Requirement: shared.Requirement{Model: "storyteller"}, MaxTokens: 1, IgnoreEOS: true,
			Messages: []shared.Message{{Role: "user", Content: prompt}},
		}, func(shared.Chunk) error {
			first = time.Since(start)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		return first
	}
	for range 50 { // both sides warm
		overHTTP()
		line()
	}
	var http, rpc, off, added []time.Duration
	for b.Loop() {
		atEdge, first := overHTTP()
		own := line()
		http, rpc = append(http, first), append(rpc, own)
		added = append(added, first-own)
		off = append(off, first-atEdge)
	}
	report := func(name string, d []time.Duration) {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2])/float64(time.Microsecond), name)
	}
	report("http-first-p50-µs", http)
	report("rpc-first-p50-µs", rpc)
	report("added-p50-µs", added)
	report("stopwatch-off-p50-µs", off)
}
