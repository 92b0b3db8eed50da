package e2e

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// soakFor makes the soak go on for that long; without it, it makes a few rounds.
var soakFor = flag.Duration("soak", 0, "how long TestSoak goes on")

// The rounds of a soak without -soak, and what is done in a round.
const (
	soakRounds   = 6
	soakRequests = 50
	soakClients  = 8
	soakSlot     = "story"
)

// soak is one slot under random load.
type soak struct {
	*server
	frontend shared.Frontend
	cell     int64 // bytes of one token in the KV memory
	ended    int   // requests
}

// disturbance is what happens in the middle of a round.
type disturbance string

const (
	quiet   disturbance = "quiet"
	killing disturbance = "kill -9 of the worker"
	evict   disturbance = "evict"
	drop    disturbance = "evict with the host buffer"
)

// TestSoak is random load with cancels, deadlines, evictions and kill -9 of the
// worker. Every request ends exactly once, nothing stays in flight, the account of
// the KV memory is what the engine counts, and neither process grows.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	if *soakFor == 0 {
		random = rand.New(rand.NewPCG(1, 2))
	}
	script := []disturbance{quiet, killing, evict, quiet, drop, killing}
	var worker, supervisor []int64
	for start, round := time.Now(), 0; round < soakRounds || time.Since(start) < *soakFor; round++ {
		what := script[round%len(script)]
		s.round(random, what)
		if t.Failed() {
			t.Fatalf("round %d: %s", round, what)
		}
		worker, supervisor = append(worker, resident(t, s.settled().PID)), append(supervisor, resident(t, s.cmd.Process.Pid))
	}
	stays(t, "the worker", worker)
	stays(t, "the supervisor", supervisor)
	p := s.settled().Load.Pages
	if p.HitDeviceTokens+p.HitHostTokens+p.HitDiskTokens == 0 {
		t.Errorf("no page was used: %+v", p)
	}
	s.logIsClean()
	t.Logf("%d requests in %d rounds; memory of the worker %v, of the supervisor %v bytes; %+v", s.ended, len(worker), worker, supervisor, p)
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{server: serve(t, fmt.Sprintf(`
model "story" { path = %q }
slot %q {
  model   = model.story
  threads = 1
  context {
    tokens   = 512
    parallel = 4
  }
  pages {
    host = "8MiB"
    disk = "24MiB"
  }
}
`, model(t, "storyteller-q8_0.gguf"), soakSlot))}
	frontend, detach, err := supervisor.Attach(t.Context(), s.state, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(detach)
	s.frontend = frontend
	prompt := tokensOf(rand.New(rand.NewPCG(3, 4)), 100)
	res, err := frontend.Generate(t.Context(), s.request(prompt, 10), func(shared.Chunk) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	held := int64(len(prompt) + res.Usage.CompletionTokens - 1)
	load := s.until("the first request's tokens are counted", func(i shared.SlotInfo) bool { return i.Load.Pages.IdleTokens == held }).Load
	s.cell = load.Pages.Device.Bytes / held
	return s
}

func (s *soak) request(prompt []int32, n int) shared.GenerateRequest {
	return shared.GenerateRequest{Requirement: shared.Requirement{SlotID: soakSlot}, PromptTokens: prompt, MaxTokens: n, IgnoreEOS: true}
}

func tokensOf(random *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = 10 + random.Int32N(900)
	}
	return tokens
}

// until looks at the slot until the condition holds.
func (s *soak) until(what string, holds func(shared.SlotInfo) bool) shared.SlotInfo {
	s.t.Helper()
	var last shared.SlotInfo
	for end := time.Now().Add(patience); time.Now().Before(end); {
		list, err := s.frontend.ListSlots(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if last = list.Slots[0]; holds(last) {
			return last
		}
		if last.Process == shared.ProcessFailed {
			// Killed too often in too short a time: an operator has to say go on.
			if _, err := s.frontend.Restart(s.t.Context(), soakSlot); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.t.Fatalf("waiting until %s: %+v", what, last)
	return last
}

// round lets clients make their requests, with a disturbance half-way.
func (s *soak) round(random *rand.Rand, what disturbance) {
	s.t.Helper()
	var started atomic.Int64
	half := make(chan struct{})
	var wg sync.WaitGroup
	for range soakClients {
		own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		wg.Go(func() {
			var talk []int32
			for {
				n := started.Add(1)
				if n > soakRequests {
					return
				}
				if n == soakRequests/2 {
					close(half)
				}
				if len(talk) == 0 || len(talk) > 400 || own.IntN(4) == 0 {
					talk = tokensOf(rand.New(rand.NewPCG(9, uint64(own.IntN(12)))), 64+own.IntN(100))
				}
				talk = append(slices.Clone(talk), tokensOf(own, 1+own.IntN(40))...)
				talk = append(talk, s.one(own, what, talk)...)
			}
		})
	}
	<-half
	s.disturb(what)
	wg.Wait()
	s.ended += soakRequests
}

func (s *soak) disturb(what disturbance) {
	s.t.Helper()
	switch what {
	case killing:
		info := s.until("there is a worker", func(i shared.SlotInfo) bool { return i.PID != 0 && i.Process == shared.ProcessUp })
		if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
			s.t.Error(err)
		}
	case evict, drop:
		if _, err := s.frontend.Evict(s.t.Context(), soakSlot, what == drop); err != nil {
			s.t.Error(err)
		}
	}
}

// one makes a request, which may be cancelled or have little time, and judges how
// it ends.
func (s *soak) one(random *rand.Rand, what disturbance, prompt []int32) (tokens []int32) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	req := s.request(prompt, 1+random.IntN(16))
	left := -1
	switch random.IntN(8) {
	case 0, 1, 2:
		if left = random.IntN(8); left == 0 {
			go cancel()
		}
	case 3:
		req.Deadline = time.Duration(1+random.IntN(20)) * time.Millisecond
	}
	cancels := left >= 0
	var over atomic.Bool
	res, err := s.frontend.Generate(ctx, req, func(c shared.Chunk) error {
		if over.Load() {
			s.t.Error("a chunk came after the end")
		}
		tokens = append(tokens, c.Tokens...)
		if left--; left == 0 {
			cancel()
		}
		return nil
	})
	over.Store(true)
	switch kind := shared.KindOf(err); {
	case err == nil:
		if res.FinishReason == "" || res.Usage.CompletionTokens != len(tokens) || res.Usage.PromptTokens != len(prompt) {
			s.t.Errorf("%d prompt tokens and %d others ended with %+v", len(prompt), len(tokens), res)
		}
	case kind == shared.KindCancelled && cancels:
	case kind == shared.KindDeadline && req.Deadline > 0:
	case (kind == shared.KindWorkerLost || kind == shared.KindUnavailable) && what == killing:
	default:
		s.t.Errorf("%s: %v", what, err)
	}
	return tokens
}

// settled waits until nothing runs and the slot is ready, and for the account to be
// what the engine counts.
func (s *soak) settled() shared.SlotInfo {
	s.t.Helper()
	if _, err := s.frontend.Prepare(s.t.Context(), soakSlot, nil); err != nil {
		s.until("the slot can be prepared", func(shared.SlotInfo) bool {
			_, err := s.frontend.Prepare(s.t.Context(), soakSlot, nil)
			return err == nil
		})
	}
	return s.until("nothing runs, and the account is the engine's", func(i shared.SlotInfo) bool {
		l := i.Load
		return i.Status == shared.SlotResident && i.InFlight == 0 && l.SequencesRunning == 0 && l.SequencesWaiting == 0 &&
			l.KVTokensUsed == 0 && l.KVTokensTotal == 4*512 && l.Pages.Off == "" && l.Pages.Device.Bytes == s.cell*l.Pages.IdleTokens
	})
}

// logIsClean looks for what the worker noticed of itself.
func (s *soak) logIsClean() {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.state, "logs", soakSlot+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, `"@level":"error"`) {
			s.t.Error(line)
		}
	}
}

// resident is how much memory a process has.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d does not say how large it is", pid)
	return 0
}

// stays wants the least of the later half of the rounds not to be beyond the most
// of the earlier half, but for what a garbage collector leaves lying.
func stays(t *testing.T, who string, bytes []int64) {
	t.Helper()
	slack := int64(24 << 20)
	if len(raceFlag) > 0 {
		slack *= 8
	}
	half := len(bytes) / 2
	if before, after := slices.Max(bytes[:half]), slices.Min(bytes[half:]); after > before+slack {
		t.Errorf("%s grew from %d to %d bytes: %v", who, before, after, bytes)
	}
}
