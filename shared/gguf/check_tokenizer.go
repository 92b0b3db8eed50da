package gguf

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// maxTokens is eight times the largest vocabulary in use.
const maxTokens = 1 << 21

const tokensKey = "tokenizer.ggml.tokens"

// checkTokenizer makes sure that text can be turned into tokens and back, and
// that the lists beside the vocabulary fit it.
func (f *File) checkTokenizer() error {
	const prefix = "tokenizer.ggml."
	model := f.String(prefix + "model")
	if model == "" || model == "none" || model == "no_vocab" {
		return wrong(prefix+"model", "missing: the file has no tokenizer")
	}
	tokens := f.values[tokensKey]
	switch {
	case tokens.typ != Array || tokens.elem != String || tokens.count == 0:
		return wrong(tokensKey, "missing: the file has no vocabulary")
	case tokens.count > maxTokens:
		return wrong(tokensKey, "%d tokens; at most %d are allowed", tokens.count, maxTokens)
	}
	for _, list := range []struct {
		key   string
		types []ValueType
		count uint64
	}{
		{prefix + "scores", []ValueType{Float32}, tokens.count},
		{prefix + "token_type", []ValueType{Int32, Uint32}, tokens.count},
		{prefix + "merges", []ValueType{String}, 0},
	} {
		v, ok := f.values[list.key]
		switch {
		case !ok:
		case v.typ != Array || !slices.Contains(list.types, v.elem):
			return wrong(list.key, "not a list of %s", list.types[0])
		case list.count != 0 && v.count != list.count:
			return wrong(list.key, "%d entries for %d tokens", v.count, list.count)
		}
	}
	if v, ok := f.values["tokenizer.chat_template"]; ok && v.typ != String {
		return wrong("tokenizer.chat_template", "%s instead of a string", v.typ)
	}
	return f.checkVocabulary(model)
}

// checkVocabulary refuses a token that is there twice, and a sentence piece
// vocabulary without a token for some byte: the engine aborts on the first when
// it loads, on the second as soon as a text needs the byte. Empty tokens may
// repeat; the engine gives them names of its own.
func (f *File) checkVocabulary(model string) error {
	v, _ := f.Value(tokensKey)
	first := make(map[string]uint64, min(v.Count, 1<<18))
	index := uint64(0)
	for rest := v.Raw; len(rest) > 0; index++ {
		n := 8 + binary.LittleEndian.Uint64(rest)
		token := rest[8:n]
		rest = rest[n:]
		if len(token) == 0 {
			token = fmt.Appendf(nil, "[EMPTY_%d]", index)
		}
		if before, twice := first[string(token)]; twice {
			return wrong(tokensKey, "token %d is the same as token %d: %q", index, before, token[:min(len(token), 80)])
		}
		first[string(token)] = index
	}
	if model != "llama" {
		return nil
	}
	for b := range 256 {
		_, spelled := first[fmt.Sprintf("<0x%02X>", b)]
		_, raw := first[string([]byte{byte(b)})]
		if !spelled && !raw {
			return wrong(tokensKey, "no token stands for the byte 0x%02X", b)
		}
	}
	return nil
}
