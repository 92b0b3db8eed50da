package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// abortingModel is a model whose header is in order, and at which the engine
// aborts.
func abortingModel(t testing.TB) []byte {
	t.Helper()
	valid, err := os.ReadFile(model(t, "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	header, err := gguf.Read(bytes.NewReader(valid), int64(len(valid)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ggufwrite.Model{Kind: ggufwrite.Window, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
	if err != nil {
		t.Fatal(err)
	}
	f.Set(ggufwrite.U32("gemma3.attention.sliding_window_pattern", 1))
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCrashLoopOnLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(path, abortingModel(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf(`
model "good" { path = %q }
model "bad" { path = %q }
slot "good" {
  model   = model.good
  threads = 1
  context { tokens = 256 }
}
slot "bad" {
  model   = model.bad
  threads = 1
  preload = false
  context { tokens = 256 }
  restart {
    attempts  = 2
    interval  = "10m"
    delay     = "10ms"
    max_delay = "20ms"
  }
}
`, model(t, "storyteller-f16.gguf"), path))
	before := s.slots()["good"]
	a := s.ask("bad")
	if a.Error == nil || a.Error.Kind != "unavailable" || a.Error.RetryAfterMS <= 0 || !strings.Contains(a.Error.Message, "signal") || len(a.Error.LogTail) == 0 {
		t.Fatalf("the slot whose worker aborts answered %+v", a.Error)
	}
	slots := s.slots()
	bad := slots["bad"]
	if bad.Process != "failed" || bad.Restarts != 2 || !strings.HasPrefix(bad.Exit, "signal") || bad.RetryAfterMS <= 0 || len(bad.LogTail) == 0 {
		t.Errorf("after its attempts the slot is %+v", bad)
	}
	t.Logf("%s\nexit %s, retry after %d ms\n%s", a.Error.Message, bad.Exit, bad.RetryAfterMS, strings.Join(bad.LogTail, "\n"))
	s.served("good")
	if good := s.slots()["good"]; good.PID != before.PID || good.Restarts != 0 {
		t.Errorf("the other slot was %+v and is %+v", before, good)
	}
	fixed, err := os.ReadFile(model(t, "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fixed, 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("restart", "bad")
	s.served("bad")
}
