package proxy

import (
	"strings"
	"testing"
)

func TestEmbeddings(t *testing.T) {
	c := start(t, Config{}, &fake{})
	for body, want := range map[string]string{
		`"input":"abc"`: `[{"object":"embedding","index":0,"embedding":[3,-0.5]}],"model":"story:Q8_0"`,
		`"input":["a","bc"],"encoding_format":"float"`: `"index":0,"embedding":[1,-0.5]},{"object":"embedding","index":1,"embedding":[2,-0.5]}`,
		`"input":[7,8,9]`:     `"embedding":[3,-0.5]`,
		`"input":[[7],[8,9]]`: `"index":1,"embedding":[2,-0.5]`,
		`"input":"abc","encoding_format":"base64","user":"u"`: `"embedding":"AABAQAAAAL8="`,
		`"input":["a","bc"]`: `"usage":{"prompt_tokens":3,"total_tokens":3},"slot_id":"q8","pooling":"mean"`,
	} {
		if r := c.do("POST", "/v1/embeddings", `{"model":"story:Q8_0",`+body+`}`); r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s, want %s", body, r.status, r.body, want)
		}
	}
	many := `"input":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 2049), ",") + `]`
	for _, bad := range []struct{ body, code, param string }{
		{`"input":"a","dimensions":64`, "unsupported_parameter", "dimensions"},
		{`"input":"a","encoding_format":"int8"`, "invalid_value", "encoding_format"},
		{`"input":""`, "invalid_value", "input"},
		{`"input":[]`, "invalid_value", "input"},
		{`"input":["a",""]`, "invalid_value", "input"},
		{`"input":{"a":1}`, "invalid_type", "input"},
		{`"input":["a",1]`, "invalid_type", "input"},
		{`"user":"u"`, "missing_parameter", "input"},
		{many, "invalid_value", "input"},
	} {
		c.do("POST", "/v1/embeddings", `{"model":"story:Q8_0",`+bad.body+`}`).wantError(t, 400, bad.code, bad.param)
	}
	c.do("POST", "/v1/embeddings", `{"input":"a"}`).wantError(t, 400, "missing_parameter", "model")
	c.do("POST", "/v1/embeddings", `{"model":"story","input":"a"}`).wantError(t, 404, "model_ambiguous", "precision")

	if r := c.do("POST", "/detokenize", `{"model":"story:Q8_0","tokens":[1,2]}`); r.status != 200 || !strings.Contains(r.body, `{"content":"[1 2]"}`) {
		t.Errorf("detokenize: %s", r.body)
	}
	c.do("POST", "/detokenize", `{"model":"none","tokens":[1,2]}`).wantError(t, 404, "model_not_found", "model")
}
