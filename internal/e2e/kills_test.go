package e2e

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

var (
	kills       = flag.Int("kills", 2, "how often the supervisor is killed under load")
	killsWithin = flag.Duration("kills-within", patience, "how long a worker may outlive its killed supervisor")
)

// TestKilledSupervisorUnderLoad kills the supervisor at random moments. Each time
// no worker outlives it, every request ends, and the next start clears up and
// serves.
func TestKilledSupervisorUnderLoad(t *testing.T) {
	dir, err := os.MkdirTemp(program.short, "k")
	if err != nil {
		t.Fatal(err)
	}
	file, state := filepath.Join(dir, "test.hcl"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, []byte(twoSlots(t, sha256Q8)), 0o600); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	var longest time.Duration
	for range *kills {
		s := serveIn(t, file, state)
		longest = max(longest, killUnderLoad(t, s, 1+rnd.IntN(80)))
	}
	t.Logf("%d kills; the last worker ended %v after its supervisor at the latest", *kills, longest)
	s := serveIn(t, file, state)
	s.served("q8")
	s.served("f16")
	workers, err := filepath.Glob(filepath.Join(state, "w", "*", "proc.json"))
	if err != nil || len(workers) != 2 {
		t.Errorf("workers in the state directory: %v, %v", workers, err)
	}
}

// killUnderLoad runs requests, kills the supervisor at the given chunk and tells
// how long the workers outlived it.
func killUnderLoad(t *testing.T, s *server, chunk int) time.Duration {
	t.Helper()
	slots := s.slots()
	ended := map[string]func(time.Duration) bool{}
	for id, slot := range slots {
		ended[id] = watchEnd(t, slot.PID)
	}
	frontend, detach, err := supervisor.Attach(t.Context(), s.state, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer detach()
	chunks := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	for _, id := range []string{"q8", "f16", "q8", "f16"} {
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := frontend.Generate(ctx, shared.GenerateRequest{
					Requirement: shared.Requirement{SlotID: id}, Prompt: "Tell me a story.", MaxTokens: 40, IgnoreEOS: true,
				}, func(shared.Chunk) error {
					select {
					case chunks <- struct{}{}:
					case <-ctx.Done():
					}
					return ctx.Err()
				})
				if err != nil {
					return // the supervisor is gone
				}
			}
		})
	}
	for range chunk {
		select {
		case <-chunks:
		case <-s.ended:
			t.Fatal("serve ended by itself")
		}
	}
	kill(t, s.cmd.Process.Pid, syscall.SIGKILL)
	at := time.Now()
	for id, gone := range ended {
		if !gone(max(*killsWithin-time.Since(at), 0)) {
			t.Errorf("the worker of %s outlives its supervisor by %v", id, *killsWithin)
		}
	}
	took := time.Since(at)
	cancel()
	load.Wait()
	s.waitEnd()
	return took
}
