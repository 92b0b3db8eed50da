package proxy

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

// tellProbs answers with an emoji whose bytes are spread over two tokens.
func tellProbs(_ context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	fox := "🦊"
	chunks := []shared.Chunk{
		{Text: "A", Logprobs: []shared.TokenLogprob{{Token: 1, Bytes: []byte("A"), Logprob: -0.5}}},
		{Text: fox, Logprobs: []shared.TokenLogprob{
			{Token: 2, Bytes: []byte(fox[:1]), Logprob: -1, Top: []shared.AlternativeLogprob{{Token: 9, Bytes: []byte("z"), Logprob: -0.25}}},
			{Token: 3, Bytes: []byte(fox[1:]), Logprob: -2},
		}},
		{Logprobs: []shared.TokenLogprob{{Token: 4, Bytes: []byte{0xC3}, Logprob: -3}}}, // no text, but a token
	}
	for _, c := range chunks {
		if !req.Logprobs {
			c.Logprobs = nil
		}
		if err := emit(c); err != nil {
			return shared.Result{}, err
		}
	}
	return shared.Result{FinishReason: shared.FinishLength}, nil
}

func TestLogprobsInBothShapes(t *testing.T) {
	c := start(t, Config{}, &fake{generate: tellProbs})
	chat := strings.TrimSuffix(askStory, "}")
	const text = `{"model":"story:Q8_0","prompt":"x"`
	chatWant := `"logprobs":{"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[]},` +
		`{"token":"�","logprob":-1,"bytes":[240],"top_logprobs":[{"token":"z","logprob":-0.25,"bytes":[122]}]},` +
		`{"token":"���","logprob":-2,"bytes":[159,166,138],"top_logprobs":[]},` +
		`{"token":"�","logprob":-3,"bytes":[195],"top_logprobs":[]}],"refusal":null}`
	textWant := `"logprobs":{"tokens":["A","bytes:\\xf0","bytes:\\x9f\\xa6\\x8a","bytes:\\xc3"],"token_logprobs":[-0.5,-1,-2,-3],` +
		`"top_logprobs":[{},{"z":-0.25},{},{}],"text_offset":[0,1,2,2]}`
	// A run of bytes that are no character shows as one replacement.
	chatWant = strings.ReplaceAll(chatWant, "���", "�")
	if r := c.chat(chat + `,"logprobs":true,"top_logprobs":1}`); !strings.Contains(r.body, chatWant) {
		t.Error(cmp.Diff(chatWant, r.body))
	}
	if r := c.do("POST", "/v1/completions", text+`,"logprobs":1}`); !strings.Contains(r.body, textWant) {
		t.Error(cmp.Diff(textWant, r.body))
	}
	if r := c.chat(chat + `,"stream":true,"logprobs":true}`); strings.Count(r.body, `"logprobs":{`) != 3 || !strings.Contains(r.body, `"bytes":[195]`) {
		t.Errorf("streamed chat: %s", r.body)
	}
	r := c.do("POST", "/v1/completions", text+`,"stream":true,"logprobs":0}`)
	if !strings.Contains(r.body, `"text_offset":[1,2]`) || !strings.Contains(r.body, `"text_offset":[2]`) {
		t.Errorf("streamed text: %s", r.body)
	}
	for _, plain := range []reply{c.chat(askStory), c.chat(chat + `,"logprobs":false}`), c.do("POST", "/v1/completions", text+`}`)} {
		if !strings.Contains(plain.body, `"logprobs":null`) {
			t.Errorf("not asked for: %s", plain.body)
		}
	}
	c.do("POST", "/v1/completions", text+`,"logprobs":21}`).wantError(t, 400, "invalid_value", "logprobs")
}
