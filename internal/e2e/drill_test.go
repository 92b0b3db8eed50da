package e2e

import (
	"encoding/json"
	"testing"
)

// A drill finds that each harm is noticed and got over, and leaves the slot
// serving, and the others alone.
func TestDrill(t *testing.T) {
	s := serve(t, `
supervisor {
  wedge_after = "6s"
  heartbeat   = "200ms"
}
`+twoSlots(t, sha256Q8)+`
slot "drilled" {
  model   = model.q8
  threads = 1
  context { tokens = 256 }
  pages { disk = "16MiB" }
  restart { delay = "50ms" }
}
`)
	before := s.slots()
	out := s.run("doctor", "--drill", "drilled", "--json")
	t.Logf("%s%s", out.stderr, out.stdout)
	var doc struct {
		OK    bool
		Cases []struct {
			Case        string
			OK, Tried   bool
			DetectedMS  *float64 `json:"detected_ms"`
			RecoveredMS *float64 `json:"recovered_ms"`
			Note        string
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &doc); err != nil || len(doc.Cases) != 4 {
		t.Fatalf("%v: exit %d", err, out.code)
	}
	// How long it took is not looked at: on a busy machine it may be any time.
	for _, c := range doc.Cases {
		noticed := c.DetectedMS != nil || c.Case == "full disk" // which the slot serves through
		if !c.Tried || !c.OK || !noticed || c.RecoveredMS == nil {
			t.Errorf("%+v", c)
		}
	}
	if !doc.OK || out.code != 0 {
		t.Errorf("ok %v, exit %d", doc.OK, out.code)
	}
	for _, id := range []string{"q8", "f16", "drilled"} {
		s.served(id)
	}
	now := s.slots()
	for _, id := range []string{"q8", "f16"} {
		if now[id].PID != before[id].PID || now[id].Restarts != 0 {
			t.Errorf("another slot is %+v", now[id])
		}
	}
	if d := now["drilled"]; d.Restarts < 3 || d.LastError != "" || d.Status != "resident" {
		t.Errorf("the slot is %+v", d)
	}
}
