package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// BenchmarkRouteBesideCrashLoop measures how long requests to one slot take to be
// routed before and while the worker of another one crashes again and again. The
// two share the machine's cores, so the whole first chunk is reported as well.
func BenchmarkRouteBesideCrashLoop(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bad.gguf")
	if err := os.WriteFile(path, abortingModel(b), 0o600); err != nil {
		b.Fatal(err)
	}
	bad := spec(b, "bad", "storyteller-q8_0.gguf", shared.TransferMmap)
	bad.Model, bad.ModelPath = "bad", path
	bad.Restart = shared.RestartPolicy{Attempts: 10_000, Interval: time.Hour, Delay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Mode: shared.RestartDelay}
	f := attachedTo(b, supervisor.Config{Slots: []shared.SlotSpec{spec(b, "story", "storyteller-q8_0.gguf", shared.TransferMmap), bad}})
	tokens := tokenized(b, f, "story", "Tell me a story about a fox.")
	const requests, crashes = 400, 3
	// measure makes so many requests, and goes on until enough has happened meanwhile.
	measure := func(enough func() bool) (route, first []time.Duration) {
		for i := 0; i < requests || i%50 != 0 || !enough(); i++ {
			tokens[len(tokens)/2] = int32(300 + i%700) // another prompt each time
			m := request(b, f, tokens, 1)
			route, first = append(route, m.Phases.Route), append(first, m.FirstChunk)
		}
		slices.Sort(route)
		slices.Sort(first)
		return route, first
	}
	always := func() bool { return true }
	measure(always) // warm
	restarts := func() int {
		list, err := f.ListSlots(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		return list.Slots[slices.IndexFunc(list.Slots, func(s shared.SlotInfo) bool { return s.SlotID == "bad" })].Restarts
	}
	at := func(d []time.Duration, q float64) float64 {
		return float64(d[int(q*float64(len(d)-1))]) / float64(time.Microsecond)
	}
	for b.Loop() {
		route, first := measure(always)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := f.Generate(ctx, shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "bad"}, Prompt: "x", MaxTokens: 1},
				func(shared.Chunk) error { return nil })
			ended <- err
		}()
		before := restarts()
		for restarts() == before { // the loop is under way
			select {
			case err := <-ended:
				b.Fatal("nobody waits for the slot any more: ", err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		before = restarts()
		routeThen, firstThen := measure(func() bool { return restarts() >= before+crashes })
		b.ReportMetric(float64(restarts()-before), "crashes")
		b.ReportMetric(float64(len(routeThen)), "requests-beside")
		cancel()
		if err := <-ended; err == nil {
			b.Error("a slot whose worker crashes gave an answer")
		}
		for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
			b.ReportMetric(at(route, q), "route-before-"+name+"-µs")
			b.ReportMetric(at(routeThen, q), "route-beside-"+name+"-µs")
			b.ReportMetric(at(routeThen, q)/at(route, q), "route-ratio-"+name)
			b.ReportMetric(at(firstThen, q)/at(first, q), "first-chunk-ratio-"+name)
		}
	}
}
