package proxy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/firstframe/firstframe/shared"
)

// chatLogprobs is how chat completions tell probabilities.
type chatLogprobs struct {
	Content []chatTokenLogprob `json:"content"`
	Refusal *string            `json:"refusal"`
}

type chatTokenLogprob struct {
	Token       string               `json:"token"`
	Logprob     float32              `json:"logprob"`
	Bytes       []int                `json:"bytes"`
	TopLogprobs []chatAlternativeLog `json:"top_logprobs"`
}

type chatAlternativeLog struct {
	Token   string  `json:"token"`
	Logprob float32 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// toChatLogprobs is nil when there is nothing to tell, which is null in JSON.
func toChatLogprobs(probs []shared.TokenLogprob) *chatLogprobs {
	if len(probs) == 0 {
		return nil
	}
	out := &chatLogprobs{Content: make([]chatTokenLogprob, len(probs))}
	for i, p := range probs {
		t := chatTokenLogprob{
			Token: chatTokenText(p.Bytes), Logprob: p.Logprob, Bytes: byteList(p.Bytes), TopLogprobs: []chatAlternativeLog{},
		}
		for _, a := range p.Top {
			t.TopLogprobs = append(t.TopLogprobs, chatAlternativeLog{
				Token: chatTokenText(a.Bytes), Logprob: a.Logprob, Bytes: byteList(a.Bytes),
			})
		}
		out.Content[i] = t
	}
	return out
}

// chatTokenText is for people; the bytes beside it are exact.
func chatTokenText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// byteList is bytes as OpenAI writes them, a list of numbers.
func byteList(b []byte) []int {
	list := make([]int, len(b))
	for i, v := range b {
		list[i] = int(v)
	}
	return list
}

// textLogprobs is how text completions tell probabilities.
type textLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float32            `json:"token_logprobs"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

func toTextLogprobs(p piece) *textLogprobs {
	if len(p.probs) == 0 {
		return nil
	}
	out := &textLogprobs{}
	at := p.offset
	for _, t := range p.probs {
		out.Tokens = append(out.Tokens, textToken(t.Bytes))
		out.TokenLogprobs = append(out.TokenLogprobs, t.Logprob)
		out.TextOffset = append(out.TextOffset, at)
		at += characters(t.Bytes)
		top := map[string]float32{}
		for _, a := range t.Top {
			// Of different tokens with the same text the likelier one counts.
			if name := textToken(a.Bytes); top[name] == 0 {
				top[name] = a.Logprob
			}
		}
		out.TopLogprobs = append(out.TopLogprobs, top)
	}
	return out
}

// textToken keeps apart tokens that are different parts of characters: what is
// not UTF-8 is written as OpenAI does, byte by byte.
func textToken(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString("bytes:")
	for _, v := range b {
		fmt.Fprintf(&s, "\\x%02x", v)
	}
	return s.String()
}

// characters is how many characters begin in b.
func characters(b []byte) int {
	n := 0
	for _, v := range b {
		if utf8.RuneStart(v) {
			n++
		}
	}
	return n
}

// chatLogprobsWanted reads the two parameters of chat completions.
func chatLogprobsWanted(on *bool, top *int, req *shared.GenerateRequest) error {
	req.Logprobs = on != nil && *on
	if top == nil {
		return nil
	}
	if !req.Logprobs {
		return badRequest("invalid_value", "top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return wantLogprobs("top_logprobs", *top, req)
}

func wantLogprobs(name string, top int, req *shared.GenerateRequest) error {
	if top < 0 || top > shared.MaxTopLogprobs {
		return badRequest("invalid_value", name, "%s must be between 0 and %d", name, shared.MaxTopLogprobs)
	}
	req.Logprobs, req.TopLogprobs = true, top
	return nil
}
