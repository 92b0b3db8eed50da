package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// BenchmarkResident measures what the runtime adds to the engine on a resident
// slot of the tiny model. Requests over RPC and the same work in this process
// take turns, so that the machine's mood meets both.
func BenchmarkResident(b *testing.B) {
	const (
		file   = "storyteller-q8_0.gguf"
		prompt = "Tell me a story about a fox."
		long   = 33
	)
	frontend := attached(b, spec(b, "story", file, shared.TransferMmap))
	own := direct(b, file)
	tokens := tokenized(b, frontend, "story", prompt)
	for range 20 { // both sides warm
		own.greedy(tokens, 1, func() {})
		request(b, frontend, tokens, 1)
	}
	var slot, rpcFirst, ownFirst, perToken []time.Duration
	for b.Loop() {
		tokens[len(tokens)/2] = int32(300 + len(slot)%700) // another prompt each time: no page is hit
		m := request(b, frontend, tokens, 1)
		slot = append(slot, m.Phases.Route+m.Phases.Queue+m.Phases.SlotActivation)
		rpcFirst = append(rpcFirst, m.FirstChunk)
		start := time.Now()
		own.greedy(tokens, 1, func() { ownFirst = append(ownFirst, time.Since(start)) })
		if len(slot)%10 == 0 {
			whole := request(b, frontend, tokens, long)
			var first time.Duration
			start := time.Now()
			own.greedy(tokens, long, func() { first = time.Since(start) })
			rest := time.Since(start) - first
			perToken = append(perToken, (whole.FullResponse-whole.FirstChunk-rest)/(long-1))
		}
	}
	report := func(name string, d []time.Duration, q float64) {
		if len(d) > 0 {
			slices.Sort(d)
			b.ReportMetric(float64(d[int(q*float64(len(d)-1))])/float64(time.Microsecond), name)
		}
	}
	report("slot-p50-µs", slot, 0.5)
	report("slot-p99-µs", slot, 0.99)
	report("rpc-first-p50-µs", rpcFirst, 0.5)
	report("engine-first-p50-µs", ownFirst, 0.5)
	report("relay-token-p50-µs", perToken, 0.5)
	b.ReportMetric(float64(rpcFirst[len(rpcFirst)/2]-ownFirst[len(ownFirst)/2])/float64(time.Microsecond), "added-p50-µs")
}

func request(b *testing.B, f shared.Frontend, tokens []int32, n int) shared.Measured {
	b.Helper()
	m, err := shared.GenerateAtEdge(b.Context(), f, time.Now(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: "story"}, PromptTokens: tokens, MaxTokens: n, IgnoreEOS: true,
	}, func(shared.Chunk) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	return m
}
