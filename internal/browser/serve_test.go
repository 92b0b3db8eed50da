//go:build browser

package browser

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds the whole of a browser's life, in which everything is sure to
// come; it is no measure of speed.
const patience = 5 * time.Minute

const config = `
frontend "http" { listen = "127.0.0.1:0" }
model "q8" {
  name = "storyteller"
  path = %q
}
model "f16" {
  name = "storyteller"
  path = %q
}
slot "story" {
  model   = model.q8
  threads = 1
  context {
    tokens   = 1024
    parallel = 4
  }
  pages { disk = "64MiB" }
  restart { delay = "2s" } # long enough to be seen on a busy machine
}
slot "story-f16" {
  model    = model.f16
  transfer = "pageable"
  threads  = 1
  context { tokens = 1024 }
}
slot "spare" {
  model   = model.q8
  preload = false
  threads = 1
  context {
    tokens  = 512
    kv_type = "q8_0"
  }
}
alias "gpt-4o-mini" { slot = slot.story }
`

// serve starts the program and gives the address of its page.
func serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ff") // short, since paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "firstframe")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/firstframe").CombinedOutput(); err != nil {
		t.Fatalf("cannot build the program: %v\n%s", err, out)
	}
	models, err := filepath.Abs("../../testdata/models")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "page.hcl")
	text := fmt.Sprintf(config, filepath.Join(models, "storyteller-q8_0.gguf"), filepath.Join(models, "storyteller-f16.gguf"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "-c", file, "--state-dir", filepath.Join(dir, "s"), "--log-level", "warn")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve did not end well: %v", err)
		}
	})
	var url string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "http at "); ok {
			url = at
		}
		if strings.HasPrefix(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return url
		}
	}
	t.Fatalf("serve is not ready: %v", lines.Err())
	return ""
}
