package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
	"github.com/firstframe/firstframe/shared/jsongrammar"
)

// answerFlags say which form the answer has to have, and what to tell of it.
type answerFlags struct {
	grammar  string
	schema   string
	logprobs int
}

// noLogprobs is the flag's value when it is not given.
const noLogprobs = -1

func (f *answerFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.grammar, "grammar", "", "file with a GBNF grammar that the answer has to follow")
	flags.StringVar(&f.schema, "json-schema", "", "file with a JSON schema that the answer has to follow")
	flags.IntVar(&f.logprobs, "logprobs", noLogprobs, "with --json or --ndjson: tell each token's log probability and those of so many others")
}

// apply puts the flags into a request.
func (f *answerFlags) apply(req *shared.GenerateRequest, asJSON bool) error {
	switch {
	case f.grammar != "" && f.schema != "":
		return &usageError{errors.New("--grammar and --json-schema exclude each other")}
	case f.logprobs != noLogprobs && !asJSON:
		return &usageError{errors.New("--logprobs needs --json or --ndjson")}
	case f.logprobs < noLogprobs || f.logprobs > shared.MaxTopLogprobs:
		return &usageError{fmt.Errorf("--logprobs is a number from 0 to %d", shared.MaxTopLogprobs)}
	case f.grammar != "":
		text, err := readLimited(f.grammar, gbnf.MaxBytes)
		if err != nil {
			return err
		}
		if _, err := gbnf.Parse(string(text)); err != nil {
			return &usageError{fmt.Errorf("%s: %w", f.grammar, err)}
		}
		req.Grammar = string(text)
	case f.schema != "":
		text, err := readLimited(f.schema, jsongrammar.MaxBytes)
		if err != nil {
			return err
		}
		if req.Grammar, err = jsongrammar.FromSchema(text); err != nil {
			return &usageError{fmt.Errorf("%s: %w", f.schema, err)}
		}
	}
	if f.logprobs != noLogprobs {
		req.Logprobs, req.TopLogprobs = true, f.logprobs
	}
	return nil
}

// readLimited reads a file, one byte more than the limit at most, so that the
// reader of its text can say that it is too long.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &usageError{err}
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return text, nil
}

type logprobJSON struct {
	Token   int32             `json:"token"`
	Text    string            `json:"text"`
	Bytes   []int             `json:"bytes"`
	Logprob float32           `json:"logprob"`
	Top     []alternativeJSON `json:"top"`
}

type alternativeJSON struct {
	Token   int32   `json:"token"`
	Text    string  `json:"text"`
	Bytes   []int   `json:"bytes"`
	Logprob float32 `json:"logprob"`
}

func toLogprobsJSON(probs []shared.TokenLogprob) []logprobJSON {
	var out []logprobJSON
	for _, p := range probs {
		doc := logprobJSON{Token: p.Token, Text: string(p.Bytes), Bytes: toInts(p.Bytes), Logprob: p.Logprob, Top: []alternativeJSON{}}
		for _, a := range p.Top {
			doc.Top = append(doc.Top, alternativeJSON{Token: a.Token, Text: string(a.Bytes), Bytes: toInts(a.Bytes), Logprob: a.Logprob})
		}
		out = append(out, doc)
	}
	return out
}

func toInts(b []byte) []int {
	out := make([]int, len(b))
	for i, v := range b {
		out[i] = int(v)
	}
	return out
}
