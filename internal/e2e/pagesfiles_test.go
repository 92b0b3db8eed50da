package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type pageFilesDoc struct {
	Groups []struct {
		Folder, State string
		SlotRevision  string `json:"slot_revision"`
		Declared      *bool
		Pages         int
	}
	Pages   int
	Bytes   int64
	Removed *bool
}

func (s *server) pageFiles(args ...string) pageFilesDoc {
	s.t.Helper()
	var doc pageFilesDoc
	out := s.ok(append([]string{"pages"}, append(args, "--json")...)...)
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return doc
}

// Pages are looked after beside a running supervisor, which goes on with what is
// left, and after it has ended.
func TestPagesAreLookedAfter(t *testing.T) {
	path := model(t, "storyteller-q8_0.gguf")
	head := fmt.Sprintf("model \"story\" { path = %q }\n", path)
	with := adaptedSlot("story", fmt.Sprintf("adapter { path = %q }", adapter(t, path)))
	s := serve(t, head+adaptedSlot("story", ""))
	prompt := strings.Repeat("Tell me a story about a fox and an owl. ", 12)
	first := s.adapted("--slot", "story", prompt)
	s.declare(head + with)
	s.adapted("--slot", "story", prompt)
	for s.pageFiles("list").Pages < 4 {
	}
	if err := os.WriteFile(filepath.Join(s.state, "slots", "story", "pages", strings.Repeat("0", 40)+".page"), []byte("ffpage\r\n\x00\x00\x00\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := s.pageFiles("list", "-c", s.file)
	byState := map[string]int{}
	for _, g := range doc.Groups {
		state := g.State
		if g.Declared != nil {
			state += fmt.Sprint(*g.Declared)
		}
		byState[state] += g.Pages
	}
	if byState["usabletrue"] != 2 || byState["usablefalse"] != 2 || byState["older_format"] != 1 {
		t.Fatalf("listed: %+v", doc)
	}
	if dry := s.pageFiles("prune", "-c", s.file, "--dry-run"); dry.Pages != 3 || dry.Removed == nil || *dry.Removed || s.pageFiles("size").Pages != 5 {
		t.Errorf("a dry run: %+v", dry)
	}
	if old := s.pageFiles("prune"); old.Pages != 1 || s.pageFiles("size").Pages != 4 {
		t.Errorf("what is old: %+v", old)
	}
	if gone := s.pageFiles("prune", "-c", s.file); gone.Pages != 2 || !*gone.Removed {
		t.Errorf("what is not declared: %+v", gone)
	}
	if young := s.pageFiles("prune", "--older-than", "1h"); young.Pages != 0 {
		t.Errorf("what is an hour old: %+v", young)
	}
	if a := s.adapted("--slot", "story", prompt); a.Error != nil || a.Usage.CachedTokens != 128 {
		t.Errorf("after the prune: %+v", a)
	}
	s.declare(head + adaptedSlot("story", ""))
	if a := s.adapted("--slot", "story", prompt); a.Error != nil || a.Usage.CachedTokens != 0 || a.Text != first.Text {
		t.Errorf("pages that were pruned: %+v, first %+v", a, first)
	}
	if bad := s.run("pages", "prune", "-c", filepath.Join(s.state, "none.hcl")); bad.code == 0 {
		t.Error("a configuration that is not there prunes")
	}
}
