package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firstframe/firstframe/shared"
)

func TestChat(t *testing.T) {
	file := filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf")
	said := func(pairs ...string) (out []shared.Message) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, shared.Message{Role: pairs[i], Content: pairs[i+1]})
		}
		return out
	}
	const answer = "Once upon a time."
	tests := []struct {
		name  string
		input string
		args  []string
		asked []shared.Message // by the last request
		out   string
	}{
		{"a message a line", "Hello\n\nMore\n", nil, said("user", "Hello", "assistant", answer, "user", "More"), strings.Repeat(answer+"\n", 2)},
		{"one prompt", "", []string{"Hello"}, said("user", "Hello"), answer + "\n"},
		{"a system message", "Hello\n", []string{"--system", "Be brief."}, said("system", "Be brief.", "user", "Hello"), answer + "\n"},
		{"cleared", "Hello\n/clear\nMore\n", []string{"--system", "Be brief."}, said("system", "Be brief.", "user", "More"), strings.Repeat(answer+"\n", 2)},
		{"another system message", "Hello\n/system Rhyme.\nMore\n", nil, said("system", "Rhyme.", "user", "More"), strings.Repeat(answer+"\n", 2)},
		{"ended", "Hello\n/bye\nMore\n", nil, said("user", "Hello"), answer + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.slots[0].SlotID = "run"
			flags, prompt := tt.args, []string(nil)
			if len(flags) == 1 {
				flags, prompt = nil, tt.args
			}
			args := append(append(append([]string{"run"}, flags...), file), prompt...)
			r := runIn(t, f, tt.input, args...)
			if r.code != 0 || r.stdout != tt.out {
				t.Errorf("exit %d, %q, %s", r.code, r.stdout, r.stderr)
			}
			if d := cmp.Diff(tt.asked, f.asked.Messages); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestChatEndsWithAFailure(t *testing.T) {
	f := newFake()
	f.slots[0].SlotID = "run"
	f.fail = shared.Errorf(shared.KindWorkerLost, "the worker is gone")
	r := runIn(t, f, "Hello\nMore\n", "run", filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf"))
	if r.code == 0 || !strings.Contains(r.stderr, "the worker is gone") || len(f.asked.Messages) != 1 {
		t.Errorf("exit %d, asked %v\n%s", r.code, f.asked.Messages, r.stderr)
	}
}

func TestRunServesOrChats(t *testing.T) {
	file := filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf")
	for want, args := range map[string][]string{
		"leave out --system, --seed": {"--serve", "--system", "Be brief.", "--seed", "1", file},
		"leave out the prompt":       {"--serve", file, "Hello"},
		"--listen needs --serve":     {"--listen", "127.0.0.1:0", file},
		"not loopback":               {"--serve", "--listen", "0.0.0.0:0", file},
	} {
		if r := runIn(t, newFake(), "", append([]string{"run"}, args...)...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit %d, %s", args, r.code, r.stderr)
		}
	}
}

func TestRunRefusesWhatIsNoModel(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"run", "nowhere.gguf"}, {"run", "chat_test.go"}, {"run", "--threads", "-1", "x.gguf"}} {
		if r := runIn(t, newFake(), "", args...); r.code == 0 || r.stderr == "" {
			t.Errorf("%v: exit %d", args, r.code)
		}
	}
}
