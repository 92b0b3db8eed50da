package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

func TestGenerateRequest(t *testing.T) {
	user := func(text string) []shared.Message { return []shared.Message{{Role: "user", Content: text}} }
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
			if r.code != exitOK || r.stdout != "Once upon a time.\n" || r.stderr != "" {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(tt.want, f.asked); diff != "" {
				t.Errorf("asked for something else (-want +got)\n%s", diff)
			}
		})
	}
}
