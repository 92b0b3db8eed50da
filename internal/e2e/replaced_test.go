package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelFileReplaced: a worker is confined to the file that its model was when
// it started. One that is replaced under its path is read all the same when the
// slot is prepared again. Another model is refused once: it is not what was declared.
func TestModelFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	replace := func(file string) {
		t.Helper()
		text, err := os.ReadFile(model(t, file))
		if err == nil {
			err = os.WriteFile(path+".part", text, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".part", path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace("storyteller-q8_0.gguf")
	s := serve(t, fmt.Sprintf(`
model "m" { path = %q }
slot "story" {
  model   = model.m
  threads = 1
  context { tokens = 256 }
}
`, path))
	s.served("story")
	before := s.slots()["story"]
	s.ok("evict", "story", "--drop-host")
	replace("storyteller-q8_0.gguf")
	s.ok("prepare", "story")
	s.served("story")
	now := s.slots()["story"]
	if now.PID == before.PID || now.LastError != "" || now.Status != "resident" {
		t.Errorf("the slot was %+v and is %+v", before, now)
	}
	s.ok("evict", "story", "--drop-host")
	replace("storyteller-f16.gguf")
	out := s.run("prepare", "story")
	t.Logf("%s", out.stderr)
	if out.code == 0 || strings.Contains(out.stderr, "permission") || !strings.Contains(out.stderr, "declared") {
		t.Errorf("another model: exit %d: %s", out.code, out.stderr)
	}
	s.ok("prepare", "story") // asked for again, it is declared as it is now
	if a := s.ask("story"); a.Error != nil || a.Identity.Precision != "F16" {
		t.Errorf("the other model answered %+v", a)
	}
}
