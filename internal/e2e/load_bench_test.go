package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// loadModel is a model on which the engine's work is felt beside that of
// everything else.
func loadModel(b *testing.B) string {
	b.Helper()
	header, err := gguf.ReadFile(model(b, "storyteller-f16.gguf"))
	if err != nil {
		b.Fatal(err)
	}
	made, err := ggufwrite.Model{TargetBytes: 24 << 20, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "load.gguf")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := made.Write(f); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// loadSlot has room for eight conversations and a prompt of 4,000 tokens.
func loadSlot(b *testing.B, chunk int) shared.Frontend {
	b.Helper()
	return attached(b, shared.SlotSpec{
		SlotID: "load", Model: "load", ModelPath: loadModel(b), Device: "cpu", Transfer: shared.TransferMmap,
		ContextTokens: 4608, Parallel: 9, PageTokens: 64, KVType: "f16", PrefillChunk: chunk, Threads: 1, OnMiss: shared.OnMissWait,
	})
}

// freshPrompt gives a prompt that no page covers.
func freshPrompt(random *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = 300 + random.Int32N(700)
	}
	return tokens
}

// asked runs a request and gives the moments at which tokens came. It calls under,
// unless that is nil, when the answer is under way.
func asked(b *testing.B, f shared.Frontend, prompt []int32, n int, under func()) []time.Time {
	var at []time.Time
	_, err := f.Generate(b.Context(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: "load"}, PromptTokens: prompt, MaxTokens: n, IgnoreEOS: true,
	}, func(c shared.Chunk) error {
		for range c.Tokens {
			at = append(at, time.Now())
			if len(at) == 8 && under != nil {
				under()
			}
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
	return at
}

// together runs n requests at once and waits for all.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// BenchmarkEightClients compares eight clients at once with one at a time. Each
// asks for 32 tokens after a prompt of 32.
func BenchmarkEightClients(b *testing.B) {
	const clients, answer = 8, 32
	f, random := loadSlot(b, 128), rand.New(rand.NewPCG(1, 2))
	asked(b, f, freshPrompt(random, 32), answer, nil)
	var alone, atOnce time.Duration
	for b.Loop() {
		work := make([][]int32, 2*clients)
		for i := range work {
			work[i] = freshPrompt(random, 32)
		}
		start := time.Now()
		for i := range clients {
			asked(b, f, work[i], answer, nil)
		}
		alone += time.Since(start)
		start = time.Now()
		together(clients, func(i int) { asked(b, f, work[clients+i], answer, nil) })
		atOnce += time.Since(start)
	}
	tokens := float64(b.N * clients * answer)
	b.ReportMetric(tokens/alone.Seconds(), "alone-tok/s")
	b.ReportMetric(tokens/atOnce.Seconds(), "together-tok/s")
	b.ReportMetric(alone.Seconds()/atOnce.Seconds(), "together/alone")
}

// BenchmarkLongPromptMeanwhile compares the time between the tokens of eight
// clients with and without a prompt of 4,000 tokens that arrives meanwhile. The
// rise is given in chunks: how long one chunk of that prompt takes alone.
func BenchmarkLongPromptMeanwhile(b *testing.B) {
	const clients, chunk, long = 8, 128, 4000
	f, random := loadSlot(b, chunk), rand.New(rand.NewPCG(3, 4))
	var quiet, busy []time.Duration
	var aChunk time.Duration
	p95 := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)*95/100]
	}
	for b.Loop() {
		start := time.Now()
		asked(b, f, freshPrompt(random, long), 1, nil)
		aChunk += time.Since(start) / ((long + chunk - 1) / chunk)
		for _, meanwhile := range []bool{false, true} {
			all := make([][]time.Time, clients)
			work := make([][]int32, clients+1)
			for i := range work {
				work[i] = freshPrompt(random, 32)
			}
			work[clients] = freshPrompt(random, long)
			n := clients
			if meanwhile {
				n++
			}
			var begin, end time.Time // of the long prompt
			var under sync.WaitGroup
			under.Add(clients)
			together(n, func(i int) {
				if i == clients {
					under.Wait()
					begin = time.Now()
					asked(b, f, work[i], 1, nil)
					end = time.Now()
					return
				}
				all[i] = asked(b, f, work[i], 256, under.Done)
			})
			for _, at := range all {
				for i := 1; i < len(at); i++ {
					switch d := at[i].Sub(at[i-1]); {
					case !meanwhile:
						quiet = append(quiet, d)
					case at[i-1].After(begin) && at[i].Before(end):
						busy = append(busy, d)
					}
				}
			}
		}
	}
	if b.Failed() {
		return
	}
	aChunk /= time.Duration(b.N)
	before, after := p95(quiet), p95(busy)
	b.ReportMetric(float64(before.Microseconds())/1000, "quiet-p95-ms")
	b.ReportMetric(float64(after.Microseconds())/1000, "busy-p95-ms")
	b.ReportMetric(float64(aChunk.Microseconds())/1000, "chunk-ms")
	b.ReportMetric(float64(after-before)/float64(aChunk), "rise-chunks")
}
