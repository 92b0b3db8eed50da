package e2e

import (
	"encoding/json"
	"testing"
)

// Whatever a drill finds out, it leaves the slot serving, and the others alone.
func TestDrillLeavesTheSlotServing(t *testing.T) {
	s := serve(t, twoSlots(t, sha256Q8))
	before := s.slots()
	out := s.run("doctor", "--drill", "f16", "--within", "1s", "--json")
	var doc struct {
		Cases []struct {
			Case       string
			OK, Tried  bool
			DetectedMS *float64 `json:"detected_ms"`
			Note       string
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &doc); err != nil || len(doc.Cases) != 4 {
		t.Fatalf("%v: exit %d\n%s%s", err, out.code, out.stdout, out.stderr)
	}
	for _, c := range doc.Cases {
		if !c.Tried || !c.OK && c.Note == "" {
			t.Errorf("%+v", c)
		}
	}
	// Time may be short on a busy machine, but a dead process is noticed at once.
	if c := doc.Cases[0]; c.Case != "kill -9" || c.DetectedMS == nil {
		t.Errorf("%+v", c)
	}
	s.served("f16")
	s.served("q8")
	now := s.slots()
	if now["q8"].PID != before["q8"].PID || now["q8"].Restarts != 0 {
		t.Errorf("the other slot is %+v", now["q8"])
	}
	if f16 := now["f16"]; f16.PID == before["f16"].PID || f16.LastError != "" {
		t.Errorf("the slot is %+v", f16)
	}
}
