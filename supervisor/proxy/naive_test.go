package proxy

import (
	"strings"
	"testing"
)

// TestNaiveClients checks that what people get wrong is refused with words that help.
func TestNaiveClients(t *testing.T) {
	c := start(t, Config{}, &fake{})
	const chat, text = "/v1/chat/completions", "/v1/completions"
	with := func(more string) string { return strings.TrimSuffix(askStory, "}") + "," + more + "}" }
	message := func(m string) string { return `{"model":"story:Q8_0","messages":[` + m + `]}` }
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		code, param, says  string
	}{
		"a picture": {"POST", chat, message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}`),
			400, "unsupported_parameter", "messages", "image_url"},
		"no role":              {"POST", chat, message(`{"role":"user","content":"a"},{"content":"b"}`), 400, "missing_parameter", "messages.1.role", "no role"},
		"a list as body":       {"POST", chat, `[]`, 400, "invalid_type", "", "JSON object"},
		"a text as body":       {"POST", chat, `"hi"`, 400, "invalid_type", "", "JSON object"},
		"endless messages":     {"POST", chat, message(strings.Repeat(`{"role":"user","content":"a"},`, maxMessages) + `{"role":"user","content":"a"}`), 400, "invalid_value", "messages", "2048"},
		"no choices":           {"POST", chat, with(`"n":0`), 400, "invalid_value", "n", "between"},
		"choices below none":   {"POST", chat, with(`"n":-1`), 400, "invalid_value", "n", "between"},
		"a limit as text":      {"POST", chat, with(`"max_tokens":"5"`), 400, "invalid_type", "max_tokens", "max_tokens"},
		"a limit beyond all":   {"POST", chat, with(`"max_tokens":99999999999999999999`), 400, "invalid_type", "max_tokens", "max_tokens"},
		"an empty prompt":      {"POST", text, `{"model":"story:Q8_0","prompt":""}`, 400, "invalid_value", "prompt", "empty"},
		"a list of an empty":   {"POST", text, `{"model":"story:Q8_0","prompt":[""]}`, 400, "invalid_value", "prompt", "empty"},
		"the best of several":  {"POST", text, `{"model":"story:Q8_0","prompt":"a","best_of":2}`, 400, "unsupported_parameter", "best_of", "best_of"},
		"a browser at a POST":  {"GET", chat, "", 405, "method_not_allowed", "", "POST"},
		"OPTIONS at a POST":    {"OPTIONS", text, "", 405, "method_not_allowed", "", "POST"},
		"the folder":           {"GET", "/v1", "", 404, "unknown_url", "", "/v1"},
		"the folder of slots":  {"GET", "/api/slots", "", 404, "unknown_url", "", "/api/slots"},
		"a slash at the end":   {"POST", chat + "/", askStory, 404, "unknown_url", "", chat + "/"},
		"tokens of no model":   {"POST", "/tokenize", `{"content":"x"}`, 400, "missing_parameter", "model", "model"},
		"text of no model":     {"POST", "/detokenize", `{"tokens":[1]}`, 400, "missing_parameter", "model", "model"},
		"an action on nothing": {"POST", "/api/slots/evict", `{}`, 400, "missing_parameter", "slot_id", "slot_id"},
	} {
		r := c.do(test.method, test.path, test.body)
		if e := r.wantError(t, test.status, test.code, test.param); !strings.Contains(e.Message, test.says) {
			t.Errorf("%s: %q does not say %q", name, e.Message, test.says)
		}
		if allow := r.header.Get("Allow"); (allow != "") != (test.status == 405) {
			t.Errorf("%s: Allow is %q", name, allow)
		}
	}
	for name, r := range map[string]reply{
		"a query string":            c.do("POST", chat+"?api-version=1", askStory),
		"one as the best of one":    c.do("POST", text, `{"model":"story:Q8_0","prompt":"a","best_of":1,"suffix":"","echo":false}`),
		"as many messages as fit":   c.chat(message(strings.Repeat(`{"role":"user","content":"a"},`, maxMessages-1) + `{"role":"user","content":"a"}`)),
		"text in parts":             c.chat(message(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`)),
		"stream_options, no stream": c.chat(with(`"stream_options":{"include_usage":true}`)),
	} {
		if r.status != 200 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
