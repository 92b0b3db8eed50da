package proxy

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// Defaults of the sampling parameters that a request leaves out.
const (
	defaultTemperature = 0.8
	defaultTopK        = 40
	defaultTopP        = 0.95
	defaultMinP        = 0.05
)

const maxChoices = 16

// sampling holds the parameters that chat and text completion share.
type sampling struct {
	Temperature      *float64           `json:"temperature"`
	TopP             *float64           `json:"top_p"`
	TopK             *int               `json:"top_k"`
	MinP             *float64           `json:"min_p"`
	Seed             *int64             `json:"seed"`
	RepeatPenalty    *float64           `json:"repeat_penalty"`
	RepeatLastN      *int               `json:"repeat_last_n"`
	PresencePenalty  *float64           `json:"presence_penalty"`
	FrequencyPenalty *float64           `json:"frequency_penalty"`
	LogitBias        map[string]float64 `json:"logit_bias"`
	Stop             stringList         `json:"stop"`
	N                *int               `json:"n"`
	IgnoreEOS        bool               `json:"ignore_eos"`
	Grammar          string             `json:"grammar"`
}

func (s sampling) choices() (int, error) {
	if s.N == nil {
		return 1, nil
	}
	if *s.N < 1 || *s.N > maxChoices {
		return 0, badRequest("invalid_value", "n", "n must be between 1 and %d", maxChoices)
	}
	return *s.N, nil
}

// toShared checks the ranges and fills in the defaults.
func (s sampling) toShared() (shared.Sampling, error) {
	var out shared.Sampling
	var err error
	number := func(name string, v *float64, def, low, high float64) float32 {
		if v == nil {
			return float32(def)
		}
		if math.IsNaN(*v) || *v < low || *v > high {
			err = badRequest("invalid_value", name, "%s must be between %g and %g", name, low, high)
		}
		return float32(*v)
	}
	count := func(name string, v *int, def, low, high int) int {
		if v == nil {
			return def
		}
		if *v < low || *v > high {
			err = badRequest("invalid_value", name, "%s must be between %d and %d", name, low, high)
		}
		return *v
	}
	out.Temperature = number("temperature", s.Temperature, defaultTemperature, 0, 2)
	out.TopP = number("top_p", s.TopP, defaultTopP, 0, 1)
	out.TopK = count("top_k", s.TopK, defaultTopK, 0, math.MaxInt32)
	out.MinP = number("min_p", s.MinP, defaultMinP, 0, 1)
	out.RepeatPenalty = number("repeat_penalty", s.RepeatPenalty, 1, 0, 10)
	out.RepeatLastN = count("repeat_last_n", s.RepeatLastN, 0, -1, math.MaxInt32)
	out.PresencePenalty = number("presence_penalty", s.PresencePenalty, 0, -2, 2)
	out.FrequencyPenalty = number("frequency_penalty", s.FrequencyPenalty, 0, -2, 2)
	if s.Seed != nil {
		out.Seed = uint32(uint64(*s.Seed) ^ uint64(*s.Seed)>>32)
	}
	if err != nil {
		return shared.Sampling{}, err
	}
	for name, bias := range s.LogitBias {
		id, convErr := strconv.ParseInt(name, 10, 32)
		if convErr != nil || id < 0 || math.IsNaN(bias) || bias < -100 || bias > 100 {
			return shared.Sampling{}, badRequest("invalid_value", "logit_bias", "logit_bias maps token ids to numbers between -100 and 100")
		}
		out.LogitBias = append(out.LogitBias, shared.LogitBias{Token: int32(id), Bias: float32(bias)})
	}
	return out, nil
}

// stringList is a string or a list of strings.
type stringList []string

// UnmarshalJSONFrom reads either form.
func (l *stringList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case 'n':
		*l = nil
		_, err := dec.ReadToken()
		return err
	case '"':
		var s string
		if err := json.UnmarshalDecode(dec, &s); err != nil {
			return err
		}
		*l = stringList{s}
		return nil
	default:
		return json.UnmarshalDecode(dec, (*[]string)(l))
	}
}

const maxStops = 16

func (l stringList) check(name string) error {
	if len(l) > maxStops {
		return badRequest("invalid_value", name, "at most %d stop strings are allowed", maxStops)
	}
	for _, s := range l {
		if s == "" {
			return badRequest("invalid_value", name, "a stop string must not be empty")
		}
	}
	return nil
}

// tokenLimit merges the two names of the same limit.
func tokenLimit(name string, v *int) (int, error) {
	if v == nil {
		return 0, nil
	}
	if *v < 1 || *v > math.MaxInt32 {
		return 0, badRequest("invalid_value", name, "%s must be at least 1", name)
	}
	return *v, nil
}

// given reports whether an unsupported parameter asks for anything.
func given(v jsontext.Value) bool {
	switch string(v) {
	case "", "null", "false", `""`, "[]", "{}", `"none"`, `"auto"`:
		return false
	}
	return true
}

// effortNone is the effort of reasoning that asks for none at all.
const effortNone = `"none"`

func noThinking(effort jsontext.Value) bool { return string(effort) == effortNone }

// unsupported names the first parameter that was given but is not supported.
func unsupported(params map[string]jsontext.Value, order ...string) error {
	for _, name := range order {
		if given(params[name]) {
			return badRequest("unsupported_parameter", name, "%s is not supported by this version", name)
		}
	}
	return nil
}
