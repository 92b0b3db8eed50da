package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// reloads is how often a supervisor under load is given another configuration.
const (
	reloads = 200
	burst   = 25
)

// Two slots stay what they are while a third is declared anew again and again:
// no request is lost, and what does not change keeps its processes and pages.
func TestReloadsUnderLoad(t *testing.T) {
	specs := []shared.SlotSpec{
		spec(t, "q8", "storyteller-q8_0.gguf", shared.TransferMmap), spec(t, "f16", "storyteller-f16.gguf", shared.TransferMmap),
		spec(t, "third", "storyteller-q8_0.gguf", shared.TransferMmap),
	}
	var round atomic.Int64
	source := func(context.Context) (shared.Declaration, []shared.Diagnostic) {
		d := shared.Declaration{Slots: append([]shared.SlotSpec(nil), specs...), Aliases: map[string]string{}}
		n := int(round.Load())
		shape := 3*(n/burst) + min(n%burst, 2) // three changes in a row, then a pause
		d.Slots[2].ContextTokens = slotTokens - 64*(1+shape%2)
		d.Aliases[fmt.Sprint("round-", n%3)] = "third"
		return d, nil
	}
	f := attachedTo(t, supervisor.Config{Slots: specs, Source: source})
	ask := func(slot string) (shared.Result, error) {
		return f.Generate(t.Context(), shared.GenerateRequest{
			Requirement: shared.Requirement{SlotID: slot}, Prompt: strings.Repeat("Tell me a story about a fox and an owl. ", 9), MaxTokens: 2,
		}, func(shared.Chunk) error { return nil })
	}
	infos := func() map[string]shared.SlotInfo {
		list, err := f.ListSlots(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		byID := map[string]shared.SlotInfo{}
		for _, s := range list.Slots {
			byID[s.SlotID] = s
		}
		return byID
	}
	for _, id := range []string{"q8", "f16", "third"} {
		if _, err := ask(id); err != nil {
			t.Fatal(err)
		}
	}
	before := infos()

	var load sync.WaitGroup
	var served, thirds atomic.Int64
	over := make(chan struct{})
	for _, id := range []string{"q8", "f16", "third"} {
		load.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				res, err := ask(id)
				switch {
				case err != nil:
					t.Errorf("a request for %s was lost: %v", id, err)
					return
				case id == "third":
					thirds.Add(1)
				case res.Usage.CachedTokens != res.Usage.PromptTokens-1:
					t.Errorf("%s has lost its pages: %+v, %s", id, res.Usage, res.MissReason)
				}
				served.Add(1)
			}
		})
	}
	changed := 0
	for n := range reloads {
		round.Store(int64(n))
		res, err := f.Reload(t.Context())
		if err != nil || !res.Applied {
			t.Fatalf("reload %d: %+v, %v", n, res, err)
		}
		changed += res.Plan.Count(shared.ActionChange)
		if n%burst == 2 {
			// Somebody has to be served by this one, too.
			if _, err := ask("third"); err != nil {
				t.Fatalf("after reload %d: %v", n, err)
			}
		}
	}
	close(over)
	load.Wait()
	after := infos()
	for _, id := range []string{"q8", "f16"} {
		if after[id].PID != before[id].PID || after[id].HostBufferID != before[id].HostBufferID || after[id].Restarts != 0 {
			t.Errorf("%s did not stay as it was: %+v", id, after[id])
		}
	}
	if after["third"].PID == before["third"].PID || changed != 3*reloads/burst {
		t.Errorf("the third slot was changed %d times: %+v", changed, after["third"])
	}
	t.Logf("%d reloads, %d with another process; %d requests served, %d of them by the third slot", reloads, changed, served.Load(), thirds.Load())
}

func threeSlots(t testing.TB, tokens int, extra string) string {
	return fmt.Sprintf(`
model "story" { path = %q }
slot "one" {
  model   = model.story
  threads = 1
  context { tokens = 512 }
}
slot "two" {
  model    = model.story
  threads  = 1
  transfer = "pageable"
  context { tokens = 512 }
}
slot "three" {
  model   = model.story
  threads = 1
  context { tokens = %d }
}
%s
`, model(t, "storyteller-q8_0.gguf"), tokens, extra)
}

// rewrite replaces the configuration of a server in one step.
func (s *server) rewrite(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		s.t.Fatal(err)
	}
}

func TestServeReloads(t *testing.T) {
	s := serve(t, threeSlots(t, 512, ""))
	before := s.slots()
	same := func(what string, ids ...string) {
		t.Helper()
		now := s.slots()
		for _, id := range ids {
			if now[id].PID != before[id].PID || now[id].Restarts != 0 {
				t.Errorf("%s: slot %s is %+v instead of %+v", what, id, now[id], before[id])
			}
		}
	}

	// The file is noticed by itself.
	s.rewrite(threeSlots(t, 256, ""))
	now := s.until("the third slot has another process", func(slots map[string]slotDoc) bool {
		return slots["three"].PID != before["three"].PID && slots["three"].Status == "resident"
	})
	same("a change of another slot", "one", "two")
	before["three"] = now["three"]

	// A broken one changes nothing, and says so to who asks and in the log.
	s.rewrite(threeSlots(t, 256, `slot "four" { modell = model.story }`))
	out := s.run("reload")
	if out.code != 1 || !strings.Contains(out.stderr, "modell") || !strings.Contains(out.stderr, "test.hcl:19") || !strings.Contains(out.stderr, "nothing has changed") {
		t.Errorf("reload of a broken file: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	s.printed("nothing has changed")
	same("a broken file", "one", "two", "three")
	if out := s.run("plan", "-c", s.file); out.code != 1 || !strings.Contains(out.stderr, "modell") {
		t.Errorf("plan of a broken file: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}

	// A plan shows what a reload then does.
	other := s.file + ".other"
	if err := os.WriteFile(other, []byte(threeSlots(t, 512, `alias "tale" { slot = slot.one }`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if plan := s.ok("plan", "-c", other); !strings.Contains(plan, "context.tokens: 256 -> 512") || !strings.Contains(plan, `+ alias "tale": one`) || !strings.Contains(plan, "1 to change") {
		t.Errorf("the plan is\n%s", plan)
	}
	same("a plan", "one", "two", "three")
	s.rewrite(threeSlots(t, 512, `alias "tale" { slot = slot.one }`))
	s.ok("reload")
	if a := s.ask("tale"); a.SlotID != "one" {
		t.Errorf("the new alias answered %+v", a)
	}
	kill(t, s.cmd.Process.Pid, syscall.SIGHUP)
	s.printed("cause=SIGHUP")
	if out := s.ok("reload"); !strings.Contains(out, "nothing to do") {
		t.Errorf("the same file again:\n%s", out)
	}
	s.served("three")
	same("all of it", "one", "two")
}
