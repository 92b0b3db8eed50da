package proxy

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// TestDashboardAsksForWhatThereIs compares the series in the Grafana dashboard
// with those that are served.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../docs/monitoring/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatal("it is no JSON")
	}
	busy := slot("q8", "Q8_0")
	busy.Load.Pages.MissTokens = map[string]int64{"token_hash": 1}
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{busy}})
	c.chat(askStream)
	c.chat(`{"model":"none","messages":[{"role":"user","content":"hi"}]}`)
	served := c.do("GET", "/metrics", "").body
	names := regexp.MustCompile(`firstframe_[a-z_]+`).FindAllString(string(text), -1)
	if len(names) < 10 {
		t.Errorf("only %d series", len(names))
	}
	for _, name := range names {
		if !strings.Contains(served, "\n"+name+"{") && !strings.Contains(served, "\n"+name+" ") {
			t.Errorf("%s is not served", name)
		}
	}
}
