package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pagesDoc is what `slots --json` says of a slot's pages.
type pagesDoc struct {
	Device          struct{ Pages, Bytes int }
	Host, Disk      struct{ Pages int }
	IdleTokens      int            `json:"idle_tokens"`
	HitDeviceTokens int            `json:"hit_device_tokens"`
	HitDiskTokens   int            `json:"hit_disk_tokens"`
	MissTokens      map[string]int `json:"miss_tokens"`
	PrefilledTokens int            `json:"prefilled_tokens"`
}

func (s *server) pages(slot string) pagesDoc {
	s.t.Helper()
	var doc struct {
		Slots []struct {
			SlotID string `json:"slot_id"`
			Pages  pagesDoc
		}
	}
	out := s.ok("slots", "--json")
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	for _, sl := range doc.Slots {
		if sl.SlotID == slot {
			return sl.Pages
		}
	}
	s.t.Fatalf("no slot %s in %s", slot, out)
	return pagesDoc{}
}

// untilPages looks at a slot's pages until they are as they should be: a list does
// not wait long for what a busy worker says.
func (s *server) untilPages(slot, what string, holds func(pagesDoc) bool) {
	s.t.Helper()
	p := s.pages(slot)
	for end := time.Now().Add(patience); !holds(p); p = s.pages(slot) {
		if time.Now().After(end) {
			s.t.Fatalf("waiting until %s: %+v", what, p)
		}
	}
}

type pagedAnswer struct {
	Text       string
	MissReason string `json:"miss_reason"`
	Diverged   int    `json:"diverged_at_token"`
	Usage      struct {
		PromptTokens int `json:"prompt_tokens"`
		CachedTokens int `json:"cached_tokens"`
	}
}

func (s *server) paged(slot, prompt string) pagedAnswer {
	s.t.Helper()
	out := s.ok("generate", "--json", "--slot", slot, "--max-tokens", "12", prompt)
	var a pagedAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return a
}

// Pages of a slot outlive its worker, killed or ended, and the supervisor.
func TestPagesOutliveProcesses(t *testing.T) {
	s := serve(t, fmt.Sprintf(`
model "story" { path = %q }
slot "story" {
  model   = model.story
  threads = 1
  context { tokens = 512 }
  pages {
    host  = "64MiB"
    disk  = "256MiB"
    reuse = "fast"
  }
}
`, model(t, "storyteller-q8_0.gguf")))
	prompt := strings.Repeat("Tell me a story about a fox and an owl. ", 15)
	first := s.paged("story", prompt)
	n := first.Usage.PromptTokens
	if n < 128 || first.Usage.CachedTokens != 0 || first.MissReason != "token_hash" {
		t.Fatalf("cold: %+v", first)
	}
	again := s.paged("story", prompt)
	if again.Usage.CachedTokens != n-1 || again.MissReason != "" || again.Text != first.Text {
		t.Errorf("again: %+v, first %+v", again, first)
	}
	s.untilPages("story", "the pages are on the device", func(p pagesDoc) bool {
		return p.HitDeviceTokens == n-1 && p.IdleTokens >= n && p.Device.Pages == p.IdleTokens/64 && p.Device.Bytes%p.IdleTokens == 0 && p.MissTokens["token_hash"] == n
	})
	if other := s.paged("story", prompt+"Go on."); other.Usage.CachedTokens < 64 || other.Diverged == 0 {
		t.Errorf("another end: %+v", other)
	}
	s.untilPages("story", "all pages are on disk", func(p pagesDoc) bool {
		return p.PrefilledTokens > n+1 && p.Disk.Pages >= p.Host.Pages // after three answers
	})

	s.ok("evict", "story")
	s.untilPages("story", "an empty slot shows its pages", func(p pagesDoc) bool { return p.Host.Pages > 0 && p.Device.Bytes == 0 })
	if a := s.paged("story", prompt); a.Usage.CachedTokens != n-1 || a.Text != first.Text {
		t.Errorf("after the eviction: %+v", a)
	}

	before := s.slots()["story"]
	kill(t, before.PID, syscall.SIGKILL)
	s.until("the worker is back", func(slots map[string]slotDoc) bool {
		return slots["story"].PID != before.PID && slots["story"].Status == "resident"
	})
	if a := s.paged("story", prompt); a.Usage.CachedTokens != n-1 || a.Text != first.Text {
		t.Errorf("after the kill: %+v", a)
	}
	s.untilPages("story", "the pages have come from disk", func(p pagesDoc) bool { return p.HitDiskTokens == n-1 && p.PrefilledTokens == 1 })

	// A clean stop writes what is not on disk yet.
	late := strings.Repeat("Once there was a lighthouse by the sea. ", 15)
	want := s.paged("story", late)
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	s.waitEnd()
	s = serveIn(t, s.file, s.state)
	if a := s.paged("story", late); a.Usage.CachedTokens != want.Usage.PromptTokens-1 || a.Text != want.Text {
		t.Errorf("after the restart: %+v, before %+v", a, want)
	}
}
