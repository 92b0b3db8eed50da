package proxy

import (
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestAPIKeys(t *testing.T) {
	c := start(t, Config{HTTPSpec: shared.HTTPSpec{APIKeys: []string{"first", "second"}}}, &fake{})
	for _, path := range []string{"/v1/models", "/metrics", "/api/events"} {
		c.do("GET", path, "").wantError(t, 401, "invalid_api_key", "")
	}
	c.chat(askStory, "Authorization", "Bearer firs").wantError(t, 401, "invalid_api_key", "")
	c.chat(askStory, "Authorization", "Basic first").wantError(t, 401, "invalid_api_key", "")
	c.chat(askStory, "Authorization", "Bearer ").wantError(t, 401, "invalid_api_key", "")
	for _, header := range [][2]string{{"Authorization", "Bearer first"}, {"Authorization", "Bearer second"}, {"X-Api-Key", "first"}} {
		if r := c.chat(askStory, header[0], header[1]); r.status != 200 {
			t.Errorf("%v: %d", header, r.status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/"} {
		if r := c.do("GET", path, "", "Host", "models.example.com"); r.status != 200 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	c.do("POST", "/api/slots/evict", `{"slot_id":"q8"}`, "Authorization", "Bearer first").wantError(t, 403, "admin_disabled", "")
}

func TestAdminActions(t *testing.T) {
	open := start(t, Config{}, &fake{})
	for _, op := range []string{"prepare", "evict", "restart"} {
		r := open.do("POST", "/api/slots/"+op, `{"slot_id":"q8"}`)
		if s := as[slotJSON](t, r); r.status != 200 || s.SlotID != "q8" || s.Status != "resident" || s.DeviceBytes != 20 {
			t.Errorf("%s: %d %s", op, r.status, r.body)
		}
	}
	open.do("POST", "/api/slots/evict", `{"slot_id":"x"}`).wantError(t, 404, "model_not_found", "")
	open.do("POST", "/api/slots/explode", `{"slot_id":"q8"}`).wantError(t, 404, "unknown_action", "")

	keyed := start(t, Config{HTTPSpec: shared.HTTPSpec{APIKeys: []string{"user"}, AdminKeys: []string{"boss"}}}, &fake{})
	keyed.do("POST", "/api/slots/evict", `{"slot_id":"q8"}`, "Authorization", "Bearer user").wantError(t, 401, "invalid_api_key", "")
	if r := keyed.do("POST", "/api/slots/evict", `{"slot_id":"q8"}`, "Authorization", "Bearer boss"); r.status != 200 {
		t.Errorf("with the admin key: %d %s", r.status, r.body)
	}
}

func TestOriginsAndHosts(t *testing.T) {
	c := start(t, Config{HTTPSpec: shared.HTTPSpec{CORS: []string{"https://good.example"}}}, &fake{})
	c.chat(askStory, "Origin", "https://evil.example").wantError(t, 403, "origin_not_allowed", "")
	c.chat(askStory, "Host", "evil.example", "Origin", "http://evil.example").wantError(t, 403, "host_not_allowed", "")
	r := c.chat(askStory, "Origin", "https://good.example")
	if r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "https://good.example" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if r := c.chat(askStory, "Origin", c.url); r.status != 200 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("own page: %d %v", r.status, r.header)
	}
	for origin, allowed := range map[string]bool{"https://good.example": true, "https://evil.example": false} {
		r := c.do("OPTIONS", "/v1/chat/completions", "", "Origin", origin)
		if got := r.header.Get("Access-Control-Allow-Headers") != ""; got != allowed || r.status != 204 {
			t.Errorf("%s: %d %v", origin, r.status, r.header)
		}
	}
}

func TestMetrics(t *testing.T) {
	busy := slot("q8", "Q8_0")
	busy.Parallel, busy.InFlight = 2, 5
	busy.Load = shared.SlotLoad{KVTokensUsed: 300, KVTokensTotal: 800, Pages: shared.PageStats{
		HitHostTokens: 3, HitDiskTokens: 4, MissTokens: map[string]int64{"token_hash": 9}}}
	idle := slot("f16", "F16")
	idle.Parallel, idle.Load.KVTokensTotal = 1, 200
	c := start(t, Config{Version: "v9"}, &fake{slots: []shared.SlotInfo{busy, idle}})
	c.chat(askStream)
	c.chat(askStory)
	c.chat(strings.Replace(askStory, ":Q8_0", "", 1))
	text := c.do("GET", "/metrics", "").body
	for _, want := range []string{
		`firstframe_first_frame_seconds_count{model="story",slot="q8"} 1`,
		`firstframe_first_frame_phase_seconds_count{phase="other",slot="q8"} 1`,
		`firstframe_request_duration_seconds_count{finish_reason="stop",slot="q8",stream="false"} 1`,
		`firstframe_tokens_total{slot="q8",type="cached"} 8`,
		`firstframe_request_failures_total{kind="ambiguous"} 1`,
		`firstframe_http_requests_running 0`,
		`firstframe_slot_restarts_total{slot="f16"} 3`,
		`firstframe_slot_state{process="up",slot="q8",status="resident"} 1`,
		`firstframe_requests_running{slot="q8"} 2`,
		`firstframe_requests_waiting{slot="q8"} 3`,
		`firstframe_requests_waiting{slot="f16"} 0`,
		`firstframe_kv_cache_usage_ratio{slot="q8"} 0.375`,
		`firstframe_context_hit_tokens_total{slot="q8"} 7`,
		`firstframe_context_miss_tokens_total{reason="token_hash",slot="q8"} 9`,
		`vllm:num_requests_running 2`, `vllm:num_requests_waiting 3`, `vllm:kv_cache_usage_perc 0.3`,
		`firstframe_build_info{version="v9"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestPageLoadsNothingFromElsewhere(t *testing.T) {
	c := start(t, Config{}, &fake{})
	for path, want := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/fall.js": "text/javascript", "/slots.js": "text/javascript", "/format.js": "text/javascript", "/page.css": "text/css", "/icon.svg": "image/svg+xml"} {
		r := c.do("GET", path, "")
		if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), want) || !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %d %v", path, r.status, r.header)
		}
		if body := strings.ReplaceAll(r.body, "http://www.w3.org/", ""); strings.Contains(body, "http://") || strings.Contains(body, "https://") {
			t.Errorf("%s names another host", path)
		}
	}
}
