package proxy

import (
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestReadiness(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*shared.SlotInfo)
		ready  bool
	}{
		"resident":              {func(*shared.SlotInfo) {}, true},
		"active":                {func(s *shared.SlotInfo) { s.Status = shared.SlotActive }, true},
		"not preloaded":         {func(s *shared.SlotInfo) { s.Status, s.Process = shared.SlotEmpty, shared.ProcessStopped }, true},
		"evicted":               {func(s *shared.SlotInfo) { s.Status = shared.SlotEmpty }, true},
		"not declared yet":      {func(s *shared.SlotInfo) { s.Status, s.Identity = shared.SlotEmpty, shared.Identity{} }, false},
		"being prepared":        {func(s *shared.SlotInfo) { s.Status = shared.SlotPrefetching }, false},
		"starting":              {func(s *shared.SlotInfo) { s.Status, s.Process = shared.SlotEmpty, shared.ProcessStarting }, false},
		"restarting":            {func(s *shared.SlotInfo) { s.Status, s.Process = shared.SlotEmpty, shared.ProcessBackoff }, false},
		"failed":                {func(s *shared.SlotInfo) { s.Status, s.Process = shared.SlotEmpty, shared.ProcessFailed }, false},
		"stopped with an error": {func(s *shared.SlotInfo) { s.Status, s.LastError = shared.SlotEmpty, "wrong digest" }, false},
	} {
		info := slot("q8", "Q8_0")
		test.change(&info)
		c := start(t, Config{}, &fake{slots: []shared.SlotInfo{slot("f16", "F16"), info}})
		r := c.do("GET", "/readyz", "")
		if body := as[readyBody](t, r); body.Ready != test.ready || (r.status == 200) != test.ready || body.Slots["q8"] != string(info.Status) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

func TestModelsListsOnlyWhatIsUnique(t *testing.T) {
	other := slot("q8-long", "Q8_0")
	other.Identity.LayoutRevision = "sha256:other"
	twin := slot("f16/1", "F16")
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{slot("q8", "Q8_0"), other, slot("f16/0", "F16"), twin}})
	var ids []string
	for _, m := range as[modelList](t, c.do("GET", "/v1/models", "")).Data {
		ids = append(ids, m.ID)
	}
	// Slots that their model's name does not tell apart go by their own.
	if !slices.Equal(ids, []string{"gpt-4o-mini", "q8", "q8-long", "story:F16"}) {
		t.Errorf("models: %q", ids)
	}
}
