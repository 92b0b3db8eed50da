package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// splitModel writes a model in parts and gives their paths.
func splitModel(t testing.TB, file string, parts int) []string {
	t.Helper()
	whole, err := os.ReadFile(model(t, file))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ggufwrite.FromBytes(whole)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "story")
	var paths []string
	for i, p := range f.Split(parts, false) {
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, ggufwrite.PartName(base, i, parts))
		if err := os.WriteFile(paths[i], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// A confined worker serves a split model as it serves the whole one; what is
// wrong with parts is told when the slot is declared.
func TestSplitModelIsServed(t *testing.T) {
	whole, parts, gone := model(t, "storyteller-q8_0.gguf"), splitModel(t, "storyteller-q8_0.gguf", 3), splitModel(t, "storyteller-q8_0.gguf", 2)
	if err := os.Remove(gone[1]); err != nil {
		t.Fatal(err)
	}
	s := serve(t, fmt.Sprintf(`
model "whole" { path = %q }
model "parts" { path = %q }
model "gone"  { path = %q }
slot "whole" {
  model = model.whole
  threads = 1
}
slot "parts" {
  model = model.parts
  threads = 1
}
slot "copied" {
  model    = model.parts
  threads  = 1
  transfer = "pageable"
}
slot "gone" { model = model.gone }
`, whole, parts[0], gone[0]))
	s.served("parts")
	if a, b := s.ask("parts"), s.ask("whole"); a.Text != b.Text {
		t.Errorf("the parts say %q, the whole %q", a.Text, b.Text)
	}
	if a := s.ask("copied"); a.Error == nil || a.Error.Kind != "unsupported" || a.Error.Field != "transfer" {
		t.Errorf("pageable: %+v", a.Error)
	}
	if a := s.ask("gone"); a.Error == nil || a.Error.Kind != "model_file" || !strings.Contains(a.Error.Message, gone[1]) {
		t.Errorf("a missing part: %+v", a.Error)
	}
	if out := s.run("validate", "-c", s.file); out.code == 0 || !strings.Contains(out.stderr, gone[1]) {
		t.Errorf("validate: %s", out.stderr)
	}
}
