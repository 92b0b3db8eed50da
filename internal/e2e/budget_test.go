package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
	"github.com/firstframe/firstframe/supervisor"
)

var stormRequests = flag.Int("storm", 50, "requests of the storm over budgets")

// generatedModels writes models of random weights, alike in size.
func generatedModels(t testing.TB, count int, size int64) []string {
	t.Helper()
	valid, err := os.ReadFile(model(t, "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	header, err := gguf.Read(bytes.NewReader(valid), int64(len(valid)))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for i := range count {
		f, err := ggufwrite.Model{TargetBytes: size, Seed: uint64(i + 1), Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
		if err != nil {
			t.Fatal(err)
		}
		b, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprint("model", i, ".gguf"))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// proportional is what the system counts for a process, shared pages in parts.
func proportional(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the system does not tell the memory of a process")
	return 0
}

// ask runs a short request.
func short(ctx context.Context, f shared.Frontend, slot, prompt string) (shared.Result, error) {
	return f.Generate(ctx, shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: slot}, Prompt: prompt, MaxTokens: 4, IgnoreEOS: true, Deadline: patience,
	}, func(shared.Chunk) error { return nil })
}

func held(t testing.TB, f shared.Frontend) (slots map[string]shared.SlotInfo, sum int64) {
	t.Helper()
	l, err := f.ListSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range l.Budgets {
		if b.Held > b.Limit {
			t.Errorf("%s holds %d of %d", b.Device, b.Held, b.Limit)
		}
		sum += b.Held
	}
	slots = map[string]shared.SlotInfo{}
	for _, s := range l.Slots {
		slots[s.SlotID] = s
	}
	return slots, sum
}

// TestBudgetForTwoOfThree has three slots and memory for two of them.
func TestBudgetForTwoOfThree(t *testing.T) {
	paths := generatedModels(t, 3, 24<<20)
	for _, transfer := range []shared.Transfer{shared.TransferPageable, shared.TransferMmap} {
		t.Run(string(transfer), func(t *testing.T) { budgetForTwo(t, transfer, paths) })
	}
}

func budgetForTwo(t *testing.T, transfer shared.Transfer, paths []string) {
	var specs []shared.SlotSpec
	var need, host int64
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		s := spec(t, id, "storyteller-q8_0.gguf", transfer)
		s.ModelPath, s.Model, s.PagesHost, s.ContextTokens = paths[i], "model-"+id, 256<<10, 256
		f, err := gguf.ReadFile(s.ModelPath)
		if err != nil {
			t.Fatal(err)
		}
		need, host = f.DeviceNeed(s), f.Size()
		specs = append(specs, s)
	}
	f := attachedTo(t, supervisor.Config{
		Slots: specs, Budgets: map[string]int64{shared.HostDevice: 3 * host, "cpu": 2 * need}, MinResidency: -1,
	})
	for _, id := range []string{"a", "b", "a", "c"} {
		if _, err := short(t.Context(), f, id, "Once"); err != nil {
			t.Fatal(err)
		}
	}
	slots, _ := held(t, f)
	if slots["a"].Status != shared.SlotResident || slots["b"].Status != shared.SlotEmpty || slots["b"].HostBufferID == "" {
		t.Errorf("after a, b, a, c: a %s, b %s (host %q)", slots["a"].Status, slots["b"].Status, slots["b"].HostBufferID)
	}
	measured := slots["a"].DeviceHeld
	t.Logf("device estimated %d, measured %d", need, measured)
	if need < measured || need > 2*measured {
		t.Errorf("estimated %d bytes for %d", need, measured)
	}

	rnd := rand.New(rand.NewPCG(1, 2))
	jobs := make(chan func(), 1)
	var workers sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for job := range jobs {
				job()
			}
		})
	}
	for i := range *stormRequests {
		id, prompt := ids[rnd.IntN(3)], fmt.Sprint("Tell me story number ", rnd.IntN(20))
		cancelAfter := time.Duration(rnd.IntN(40)) * time.Millisecond
		cancels := rnd.IntN(4) == 0
		jobs <- func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if cancels {
				timer := time.AfterFunc(cancelAfter, cancel)
				defer timer.Stop()
			}
			if _, err := short(ctx, f, id, prompt); err != nil && (!cancels || shared.KindOf(err) != shared.KindCancelled) {
				t.Errorf("request %d on %s: %v", i, id, err)
			}
		}
	}
	close(jobs)
	workers.Wait()
	// Nothing is in motion after these. The system counts only memory that has been
	// touched, so they nearly fill the context; it counts the host tier of pages, too,
	// which no budget holds and which is small for that reason.
	long := strings.Repeat("Tell me a story about a fox. ", 24)
	for _, id := range ids {
		if _, err := short(t.Context(), f, id, long); err != nil {
			t.Fatal(err)
		}
	}
	slots, sum := held(t, f)
	before := int64(0)
	for _, s := range slots {
		before += proportional(t, s.PID)
		if s.InFlight != 0 || s.Restarts != 0 {
			t.Errorf("after the storm: %+v", s)
		}
	}
	after := int64(0)
	for _, id := range ids {
		if _, err := f.Evict(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
		after += proportional(t, slots[id].PID)
	}
	t.Logf("the ledger held %d, the system counted %d", sum, before-after)
	if diff := sum - (before - after); diff > sum/20 || diff < -sum/20 {
		t.Errorf("the ledger held %d bytes, and the system counted %d", sum, before-after)
	}
	if _, left := held(t, f); left != 0 {
		t.Errorf("%d bytes are held by nobody", left)
	}
}
