package proxy

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Defaults that differ at Ollama's endpoints, where clients count on Ollama's own.
const (
	ollamaTopP          = 0.9
	ollamaMinP          = 0.0
	ollamaRepeatPenalty = 1.1
)

// ollamaOptions is the options object of Ollama's requests.
type ollamaOptions struct {
	NumPredict       *wholeNumber `json:"num_predict"`
	NumCtx           *wholeNumber `json:"num_ctx"`
	Seed             *wholeNumber `json:"seed"`
	TopK             *wholeNumber `json:"top_k"`
	RepeatLastN      *wholeNumber `json:"repeat_last_n"`
	Temperature      *float64     `json:"temperature"`
	TopP             *float64     `json:"top_p"`
	MinP             *float64     `json:"min_p"`
	RepeatPenalty    *float64     `json:"repeat_penalty"`
	PresencePenalty  *float64     `json:"presence_penalty"`
	FrequencyPenalty *float64     `json:"frequency_penalty"`
	Stop             stringList   `json:"stop"`

	// These would change answers. What they mean when they are off is accepted.
	TypicalP    *float64       `json:"typical_p"`
	TFSZ        *float64       `json:"tfs_z"`
	Mirostat    *float64       `json:"mirostat"`
	MirostatTau jsontext.Value `json:"mirostat_tau"`
	MirostatEta jsontext.Value `json:"mirostat_eta"`
	RopeBase    *float64       `json:"rope_frequency_base"`
	RopeScale   *float64       `json:"rope_frequency_scale"`

	ollamaLoading `json:",embed"`
}

// ollamaLoading holds options that say how a model is to be loaded. Here that is
// declared with the slot, so that they change nothing; clients send them by habit.
type ollamaLoading struct {
	NumKeep         jsontext.Value `json:"num_keep"`
	NumBatch        jsontext.Value `json:"num_batch"`
	NumGPU          jsontext.Value `json:"num_gpu"`
	NumGQA          jsontext.Value `json:"num_gqa"`
	NumThread       jsontext.Value `json:"num_thread"`
	MainGPU         jsontext.Value `json:"main_gpu"`
	LowVRAM         jsontext.Value `json:"low_vram"`
	F16KV           jsontext.Value `json:"f16_kv"`
	LogitsAll       jsontext.Value `json:"logits_all"`
	VocabOnly       jsontext.Value `json:"vocab_only"`
	UseMmap         jsontext.Value `json:"use_mmap"`
	UseMlock        jsontext.Value `json:"use_mlock"`
	NUMA            jsontext.Value `json:"numa"`
	EmbeddingOnly   jsontext.Value `json:"embedding_only"`
	PenalizeNewline jsontext.Value `json:"penalize_newline"` // the engine's penalties know no exception
}

// wholeNumber is an integer that may be written with a point, as some languages do.
type wholeNumber int64

// UnmarshalJSONFrom reads either form.
func (n *wholeNumber) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var f float64
	if err := json.UnmarshalDecode(dec, &f); err != nil {
		return err
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return errors.New("not a whole number")
	}
	*n = wholeNumber(f)
	return nil
}

// number is the value in the form of the parameters that all endpoints share.
func (n *wholeNumber) number() *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}

// sampling gives the options as the parameters that all endpoints share.
func (o *ollamaOptions) sampling() (sampling, error) {
	for _, off := range []struct {
		name    string
		value   *float64
		neutral float64
	}{
		{"typical_p", o.TypicalP, 1}, {"tfs_z", o.TFSZ, 1}, {"mirostat", o.Mirostat, 0},
		{"rope_frequency_base", o.RopeBase, 0}, {"rope_frequency_scale", o.RopeScale, 0},
	} {
		if off.value != nil && *off.value != off.neutral {
			return sampling{}, badRequest("unsupported_parameter", off.name, "the option %s is not supported", off.name)
		}
	}
	topP, minP, penalty := ollamaTopP, ollamaMinP, ollamaRepeatPenalty
	s := sampling{
		Temperature: o.Temperature, TopP: &topP, TopK: o.TopK.number(), MinP: &minP, RepeatPenalty: &penalty,
		RepeatLastN: o.RepeatLastN.number(), PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty, Stop: o.Stop,
	}
	for _, own := range []struct{ to, from **float64 }{{&s.TopP, &o.TopP}, {&s.MinP, &o.MinP}, {&s.RepeatPenalty, &o.RepeatPenalty}} {
		if *own.from != nil {
			*own.to = *own.from
		}
	}
	if s.RepeatLastN != nil && *s.RepeatLastN == 0 {
		// No token to look back on: no penalty. Elsewhere 0 stands for the default.
		s.RepeatLastN, s.RepeatPenalty, s.PresencePenalty, s.FrequencyPenalty = nil, nil, nil, nil
	}
	if o.Seed != nil && *o.Seed >= 0 {
		seed := int64(*o.Seed)
		if seed == 0 {
			seed = zeroSeed
		}
		s.Seed = &seed
	}
	return s, nil
}

// zeroSeed stands for the seed 0, which is a seed like any other at Ollama and
// means a random one to the runtime.
const zeroSeed = 1 << 31

// limit is num_predict as the parameters that all endpoints share have it: what
// means no limit is none.
func (o *ollamaOptions) limit() (*int, error) {
	switch n := o.NumPredict; {
	case n == nil || *n == 0 || *n == -1 || *n == -2:
		return nil, nil
	case *n < 0:
		return nil, badRequest("invalid_value", "num_predict", "num_predict is a number of tokens, or -1 for no limit")
	default:
		return n.number(), nil
	}
}

// context is num_ctx, 0 when the request does not ask for any.
func (o *ollamaOptions) context() (int, error) {
	if o.NumCtx == nil {
		return 0, nil
	}
	if *o.NumCtx < 0 || *o.NumCtx > math.MaxInt32 {
		return 0, badRequest("invalid_value", "num_ctx", "num_ctx is a number of tokens")
	}
	return int(*o.NumCtx), nil
}

// unloads reads keep_alive: seconds, or a duration such as "5m". How long a slot
// stays is declared with it, so that only 0 means anything, which is: not at all.
func unloads(v jsontext.Value) (bool, error) {
	var seconds float64
	var text string
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return false, nil
	case v.Kind() == '0' && json.Unmarshal(v, &seconds) == nil:
		return seconds == 0, nil
	case v.Kind() == '"' && json.Unmarshal(v, &text) == nil:
		if d, err := time.ParseDuration(strings.TrimSpace(text)); err == nil {
			return d == 0, nil
		}
	}
	return false, badRequest("invalid_value", "keep_alive", "keep_alive is a number of seconds or a duration such as \"5m\"")
}
