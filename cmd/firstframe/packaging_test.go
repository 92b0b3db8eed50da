package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// runApp runs one command in this process.
func runApp(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{out: &stdout, errOut: &stderr, in: strings.NewReader("")}
	code = a.run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestExamples validates the example configurations with models that are there.
func TestExamples(t *testing.T) {
	header, err := gguf.ReadFile("../../testdata/models/storyteller-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ggufwrite.Model{Embedding: 64, Layers: 1, Context: 1 << 16, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"chat.gguf", "chat-Q4_K_M.gguf", "chat-F16.gguf"} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MODELS", dir)
	t.Setenv("MODEL", filepath.Join(dir, "chat.gguf"))
	t.Setenv("STATE", dir)
	files, err := filepath.Glob("../../examples/*.hcl")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		code, out, errOut := runApp(t, "validate", "-c", file)
		if code != 0 || !strings.Contains(out, "is valid") {
			t.Errorf("%s: exit %d\n%s", file, code, errOut)
		}
	}
}

// TestManualPages: every command that people see has its page, and shells have
// their completions.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, errOut := runApp(t, "man", dir); code != 0 {
		t.Fatal(errOut)
	}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(page), ".nh\n.TH") {
			t.Errorf("%s: %.40q, %v", name, page, err)
		}
		for _, inner := range cmd.Commands() {
			look(inner)
		}
	}
	look((&app{}).root())
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, errOut := runApp(t, "completion", shell); code != 0 || !strings.Contains(out, "firstframe") {
			t.Errorf("%s: exit %d, %s", shell, code, errOut)
		}
	}
}
