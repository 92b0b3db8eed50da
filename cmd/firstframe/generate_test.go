package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/jsongrammar"
)

func TestGenerateRequest(t *testing.T) {
	user := func(text string) []shared.Message { return []shared.Message{{Role: "user", Content: text}} }
	dir := t.TempDir()
	grammar, schema := filepath.Join(dir, "a.gbnf"), filepath.Join(dir, "a.json")
	for name, text := range map[string]string{grammar: `root ::= "a"`, schema: `{"const":1}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fixed, err := jsongrammar.FromSchema([]byte(`{"const":1}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		args  []string
		stdin string
		want  shared.GenerateRequest
	}{
		{"plain", []string{"Hello!"}, "", shared.GenerateRequest{Messages: user("Hello!")}},
		{"standard input", []string{"-"}, "Hello\nthere", shared.GenerateRequest{Messages: user("Hello\nthere")}},
		{"raw", []string{"--raw", "Once"}, "", shared.GenerateRequest{Prompt: "Once"}},
		{"system", []string{"--system", "Be kind.", "Hello!"}, "", shared.GenerateRequest{
			Messages: []shared.Message{{Role: "system", Content: "Be kind."}, {Role: "user", Content: "Hello!"}},
		}},
		{"grammar", []string{"--grammar", grammar, "x"}, "", shared.GenerateRequest{Messages: user("x"), Grammar: `root ::= "a"`}},
		{"schema", []string{"--json-schema", schema, "--json", "--logprobs", "0", "x"}, "", shared.GenerateRequest{
			Messages: user("x"), Grammar: fixed, Logprobs: true,
		}},
		{"everything", []string{
			"--model", "m", "--precision", "F16", "--revision", "sha256:1", "--layout", "sha256:2", "--tokenizer", "sha256:3",
			"--max-tokens", "7", "--temperature", "0.5", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.1", "--repeat-penalty", "1.1",
			"--seed", "42", "--stop", "a,b", "--stop", "c", "--ignore-eos", "--on-miss", "fail", "--deadline", "3s", "x",
		}, "", shared.GenerateRequest{
			Requirement: shared.Requirement{
				Model: "m", Precision: "F16", ModelRevision: "sha256:1", LayoutRevision: "sha256:2", TokenizerRevision: "sha256:3",
			},
			Messages: user("x"), MaxTokens: 7, Stop: []string{"a,b", "c"}, IgnoreEOS: true, OnMiss: shared.OnMissFail, Deadline: 3 * time.Second,
			Sampling: shared.Sampling{Temperature: 0.5, TopK: 40, TopP: 0.9, MinP: 0.1, RepeatPenalty: 1.1, Seed: 42},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			r := runIn(t, f, tt.stdin, append([]string{"generate"}, tt.args...)...)
			plain := !slices.Contains(tt.args, "--json")
			if r.code != exitOK || plain && r.stdout != "Once upon a time.\n" || r.stderr != "" {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(tt.want, f.asked); diff != "" {
				t.Errorf("asked for something else (-want +got)\n%s", diff)
			}
		})
	}
}

func TestGenerateRefusesConstraints(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, args := range map[string][]string{
		"line 1":           {"--grammar", file("bad.gbnf", "root ::= (")},
		`"uniqueItems"`:    {"--json-schema", file("bad.json", `{"type":"array","uniqueItems":true}`)},
		"no such file":     {"--grammar", filepath.Join(dir, "none")},
		"exclude":          {"--grammar", "a", "--json-schema", "b"},
		"needs --json":     {"--logprobs", "1"},
		"from 0 to 20":     {"--json", "--logprobs", "21"},
		"more than 262144": {"--grammar", file("long.gbnf", strings.Repeat("#", 300_000))},
	} {
		r := runIn(t, newFake(), "", append(append([]string{"generate"}, args...), "x")...)
		if r.code != exitUsage || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
}

func TestGenerateTellsLogprobs(t *testing.T) {
	f := newFake()
	f.logprobs = []shared.TokenLogprob{{Token: 5, Bytes: []byte{0xC3}, Logprob: -1, Top: []shared.AlternativeLogprob{{Token: 6, Bytes: []byte("x"), Logprob: -0.5}}}}
	const want = `"logprobs":[{"token":5,"text":"\ufffd","bytes":[195],"logprob":-1,"top":[{"token":6,"text":"x","bytes":[120],"logprob":-0.5}]}]`
	for _, form := range []string{"--json", "--ndjson"} {
		r := runIn(t, f, "", "generate", form, "--logprobs", "1", "x")
		if got := strings.NewReplacer(" ", "", "\n", "").Replace(r.stdout); r.code != exitOK || !strings.Contains(got, want) {
			t.Errorf("%s: %+v", form, r)
		}
	}
}
