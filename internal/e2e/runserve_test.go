package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestRunServes has a client ask a model file that was served in one command, and
// ends it by Ctrl-C.
func TestRunServes(t *testing.T) {
	dir, err := os.MkdirTemp(program.short, "r")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program.path, "run", "--serve", "--listen", "127.0.0.1:0", "--threads", "1", model(t, "storyteller-q8_0.gguf"))
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "http at "); ok {
			url = at
		}
		if strings.HasPrefix(lines.Text(), "ready") {
			break
		}
	}
	client := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"))
	answer, err := client.Chat.Completions.New(ctx, story("storyteller-q8_0"))
	if err != nil || answer.Choices[0].Message.Content == "" {
		t.Errorf("%+v, %v", answer, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
