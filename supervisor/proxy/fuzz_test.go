package proxy

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json"
)

// fuzzDecode wants an error of the client's own making or a request that the
// runtime can take.
func fuzzDecode(t *testing.T, err error) {
	var own *httpError
	if err == nil {
		return
	}
	if !errors.As(err, &own) {
		t.Fatalf("not the client's error: %v", err)
	}
	status, body := describe(err)
	if _, err := json.Marshal(body); err != nil || status < 400 || status > 499 {
		t.Fatalf("status %d, body %+v: %v", status, body, err)
	}
}

func FuzzDecodeChat(f *testing.F) {
	for _, seed := range []string{askStory, askStream, `{}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stop":["a"],"n":2}`,
		`{"model":"m","messages":[{"role":"user","content":null}],"logit_bias":{"1":2},"seed":-1}`, "{\"\xff\":1}", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body chatRequest
		if err := decodeJSON(data, &body); err != nil {
			fuzzDecode(t, err)
			return
		}
		req, err := body.toShared()
		fuzzDecode(t, err)
		_, err = body.choices()
		fuzzDecode(t, err)
		if req.MaxTokens < 0 || len(req.Stop) > maxStops {
			t.Fatalf("%+v", req)
		}
	})
}

func FuzzDecodeCompletion(f *testing.F) {
	for _, seed := range []string{`{"model":"m","prompt":"x"}`, `{"model":"m","prompt":["x"]}`, `{"model":"m","prompt":[1,2]}`, `{"model":"m","prompt":[]}`,
		`{"model":"m","prompt":{},"max_tokens":1}`, `{"model":"m","prompt":[1,"a"],"top_k":0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body completionRequest
		if err := decodeJSON(data, &body); err != nil {
			fuzzDecode(t, err)
			return
		}
		req, err := body.toShared()
		fuzzDecode(t, err)
		if err == nil && req.Prompt != "" && req.PromptTokens != nil {
			t.Fatalf("two prompts: %+v", req)
		}
	})
}

func FuzzDecodeResponses(f *testing.F) {
	for _, seed := range []string{askResponse, `{"model":"m","input":[{"type":"reasoning","content":[]},{"role":"assistant","content":[{"type":"output_text","text":"x"}]}]}`,
		`{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		`{"model":"m","input":"x","text":{"format":{"type":"json_object"}},"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body responsesRequest
		if err := decodeJSON(data, &body); err != nil {
			fuzzDecode(t, err)
			return
		}
		req, err := body.toShared()
		fuzzDecode(t, err)
		if err == nil && (len(req.Messages) == 0 || req.Prompt != "") {
			t.Fatalf("%+v", req)
		}
		if _, err := json.Marshal(body.echo()); err != nil {
			t.Fatalf("cannot be echoed: %v", err)
		}
	})
}

func FuzzDecodeMessages(f *testing.F) {
	for _, seed := range []string{askMessage, `{"model":"m","max_tokens":1,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]}]}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":"x"}],"stop_sequences":["a"]}`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"thinking":{"type":"disabled"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body messagesRequest
		if err := decodeJSON(data, &body); err != nil {
			fuzzDecode(t, err)
			return
		}
		req, err := body.toShared()
		fuzzDecode(t, err)
		if err == nil && (len(req.Messages) == 0 || req.MaxTokens < 1 || req.Messages[len(req.Messages)-1].Role == "assistant") {
			t.Fatalf("%+v", req)
		}
	})
}

func FuzzDecodeEmbeddings(f *testing.F) {
	for _, seed := range []string{`{"model":"m","input":"x"}`, `{"model":"m","input":["x",""]}`, `{"model":"m","input":[[1],[2,3]]}`,
		`{"model":"m","input":[1.5]}`, `{"model":"m","input":[1],"encoding_format":"base64","dimensions":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body embeddingsRequest
		if err := decodeJSON(data, &body); err != nil {
			fuzzDecode(t, err)
			return
		}
		req, err := body.toShared()
		fuzzDecode(t, err)
		for _, in := range req.Inputs {
			if (in.Text == "") == (len(in.Tokens) == 0) {
				t.Fatalf("%+v", in)
			}
		}
	})
}
