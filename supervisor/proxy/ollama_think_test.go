package proxy

import (
	"context"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestOllamaThinks(t *testing.T) {
	thinker := slot("q8", "Q8_0")
	thinker.File = shared.ModelFile{Architecture: "llama", Thinking: true}
	seen := make(chan shared.GenerateRequest, 1)
	c := start(t, Config{}, &fake{slots: []shared.SlotInfo{thinker}, generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		seen <- r
		return think(ctx, r, emit)
	}})
	const q8 = `{"model":"story:Q8_0",`
	for _, test := range []struct {
		body string
		off  bool
	}{{`"think":true,`, false}, {`"think":"low",`, false}, {`"think":null,`, false}, {"", false}, {`"think":false,`, true}} {
		whole := as[line](t, c.do("POST", "/api/chat", q8+`"stream":false,`+test.body+ollamaHi))
		if m := whole.Message; m.Thinking != "A fox?" || m.Content != "A fox." || len(m.ToolCalls) != 1 {
			t.Errorf("%s: %+v", test.body, m)
		}
		if r := <-seen; r.NoThinking != test.off {
			t.Errorf("%s: thinking is off: %v", test.body, r.NoThinking)
		}
		whole = as[line](t, c.do("POST", "/api/generate", q8+`"stream":false,`+test.body+`"prompt":"x"}`))
		if whole.Thinking != "A fox?" || *whole.Response != "A fox." {
			t.Errorf("%s: %+v", test.body, whole)
		}
		if r := <-seen; r.NoThinking != test.off {
			t.Errorf("%s: thinking is off: %v", test.body, r.NoThinking)
		}
	}
	var thought, said string
	for _, l := range lines(t, c.do("POST", "/api/chat", q8+ollamaHi)) {
		thought, said = thought+l.Message.Thinking, said+l.Message.Content
	}
	<-seen
	if thought != "A fox?" || said != "A fox." {
		t.Errorf("a stream thought %q and said %q", thought, said)
	}
	c.do("POST", "/api/chat", q8+`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho","thinking":"hm"},{"role":"user","content":"ha"}]}`)
	if r := <-seen; r.Messages[1].Reasoning != "hm" || r.Messages[1].Content != "ho" {
		t.Errorf("%+v", r.Messages)
	}
}
