package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// manySlots is a supervisor with many slots, each of its own model and all of
// known identity.
func manySlots(tb testing.TB, n int) *Supervisor {
	tb.Helper()
	dir := tb.TempDir()
	files := &fakeFiles{models: map[string]fakeModel{}, hashed: map[string]int{}}
	cfg := Config{Launcher: newFakeLauncher()}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint("model-", i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			tb.Fatal(err)
		}
		files.models[path] = fakeModel{precision: "Q8_0", digest: fmt.Sprintf("%064d", i)}
		cfg.Slots = append(cfg.Slots, shared.SlotSpec{SlotID: fmt.Sprint("slot-", i), Model: fmt.Sprint("model-", i), ModelPath: path})
	}
	s, err := newSupervisor(cfg, files)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	for {
		snap := s.registry.current.Load()
		if len(snap.groups) == n {
			return s
		}
		<-snap.newer
	}
}

func BenchmarkResolveRoute(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint("slots=", n), func(b *testing.B) {
			s := manySlots(b, n)
			req := shared.Requirement{Model: fmt.Sprint("model-", n/2), Precision: "Q8_0"}
			b.ReportAllocs()
			for b.Loop() {
				t, err := s.find(b.Context(), req, shared.OnMissWait, nil)
				if err != nil || len(t.slots) != 1 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	s := manySlots(b, 1)
	if _, err := s.Prepare(b.Context(), "slot-0", nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.registry.current.Load().slots[0].slot.acquire(b.Context(), shared.OnMissFail, nil)
		if err != nil {
			b.Fatal(err)
		}
		l.release()
	}
}

// BenchmarkPhases is a whole request on a resident slot whose worker answers at
// once: what the supervisor itself adds.
func BenchmarkPhases(b *testing.B) {
	s := manySlots(b, 10)
	if _, err := s.Prepare(b.Context(), "slot-0", nil); err != nil {
		b.Fatal(err)
	}
	req := shared.GenerateRequest{Requirement: shared.Requirement{SlotID: "slot-0"}, Prompt: "x"}
	var sums []time.Duration
	for b.Loop() {
		res, err := s.Generate(b.Context(), req, func(shared.Chunk) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		sums = append(sums, res.Phases.Route+res.Phases.Queue+res.Phases.SlotActivation)
	}
	slices.Sort(sums)
	b.ReportMetric(float64(sums[len(sums)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(sums[len(sums)*99/100].Nanoseconds()), "p99-ns")
}

// A slot that only is declared must cost next to nothing.
func TestDeclaredSlotIsSmall(t *testing.T) {
	const n, most = 2000, 64 << 10
	usage := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := usage()
	s := manySlots(t, n)
	each := (int64(usage()) - int64(before)) / n
	t.Logf("%d bytes for each declared slot", each)
	if each > most {
		t.Errorf("a declared slot takes %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(s)
}
