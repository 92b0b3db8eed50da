package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

// adapter writes a random adapter for a model.
func adapter(t testing.TB, modelPath string) string {
	t.Helper()
	header, err := gguf.ReadFile(modelPath)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ggufwrite.Adapter{Base: header, Alpha: 2000, Seed: 1}.Build()
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// adaptedSlot is a slot of the model "story" with what is added to it.
func adaptedSlot(name, block string) string {
	return fmt.Sprintf(`
slot %q {
  model   = model.story
  threads = 1
  context { tokens = 512 }
  pages {
    disk  = "64MiB"
    reuse = "exact"
  }
  %s
}
`, name, block)
}

type adaptedAnswer struct {
	pagedAnswer
	SlotID   string `json:"slot_id"`
	Identity struct {
		SlotRevision string `json:"slot_revision"`
	}
	Error *struct {
		Kind, Message, Field string
		Candidates           []struct {
			SlotID string `json:"slot_id"`
		}
	}
}

func (s *server) adapted(args ...string) adaptedAnswer {
	s.t.Helper()
	out := s.run(append([]string{"generate", "--json", "--max-tokens", "12"}, args...)...)
	var a adaptedAnswer
	if err := json.Unmarshal([]byte(out.stdout), &a); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out.stdout, out.stderr)
	}
	return a
}

// Two slots of one model, one with an adapter: never each other's requests, and
// never each other's pages, not even out of one folder.
func TestAdapterKeepsSlotsApart(t *testing.T) {
	path := model(t, "storyteller-q8_0.gguf")
	with := fmt.Sprintf("adapter { path = %q }", adapter(t, path))
	head := fmt.Sprintf("model \"story\" { path = %q }\n", path)
	s := serve(t, head+adaptedSlot("plain", "")+adaptedSlot("tuned", with))
	prompt := strings.Repeat("Tell me a story about a fox and an owl. ", 12)

	plain, tuned := s.adapted("--slot", "plain", prompt), s.adapted("--slot", "tuned", prompt)
	if plain.Error != nil || tuned.Error != nil || plain.Text == tuned.Text || plain.Text == "" {
		t.Fatalf("plain %+v, tuned %+v", plain, tuned)
	}
	if plain.Usage.CachedTokens+tuned.Usage.CachedTokens != 0 || plain.Identity == tuned.Identity {
		t.Errorf("plain %+v, tuned %+v", plain, tuned)
	}
	both := s.adapted("--model", "story", prompt)
	if both.Error == nil || both.Error.Field != "slot_revision" || len(both.Error.Candidates) != 2 ||
		!strings.Contains(both.Error.Message, "slot plain (slot_revision "+plain.Identity.SlotRevision[:19]+": no adapter)") ||
		!strings.Contains(both.Error.Message, "slot tuned (slot_revision "+tuned.Identity.SlotRevision[:19]+": adapter ") {
		t.Errorf("a name that means both: %+v", both.Error)
	}
	for _, want := range []adaptedAnswer{plain, tuned} {
		got := s.adapted("--model", "story", "--slot-revision", want.Identity.SlotRevision, prompt)
		if got.SlotID != want.SlotID || got.Text != want.Text || got.Usage.CachedTokens != 128 {
			t.Errorf("by revision: %+v, want %+v", got, want)
		}
	}
	s.shown(path)

	// The slot that had no adapter gets it: the same folder has both kinds of pages.
	s.declare(head + adaptedSlot("plain", with))
	if a := s.adapted("--slot", "plain", prompt); a.Text != tuned.Text || a.Usage.CachedTokens != 0 || a.MissReason != "slot_revision" {
		t.Errorf("with the adapter: %+v, want the text of %+v", a, tuned)
	}
	s.declare(head + adaptedSlot("plain", ""))
	if a := s.adapted("--slot", "plain", prompt); a.Text != plain.Text || a.Usage.CachedTokens != 128 {
		t.Errorf("without it again: %+v, want the text of %+v", a, plain)
	}
}

// declare gives the server another configuration.
func (s *server) declare(config string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.ok("reload")
}

// shown looks for the adapter where people look for it.
func (s *server) shown(modelPath string) {
	s.t.Helper()
	var doc struct {
		Slots []struct {
			SlotID   string `json:"slot_id"`
			Adapters []struct {
				Path, Revision string
				Scale          float64
			}
		}
	}
	if err := json.Unmarshal([]byte(s.ok("slots", "--json")), &doc); err != nil {
		s.t.Fatal(err)
	}
	for _, slot := range doc.Slots {
		if want := slot.SlotID == "tuned"; (len(slot.Adapters) == 1) != want {
			s.t.Errorf("slot %+v of %s", slot, modelPath)
		} else if want && (slot.Adapters[0].Scale != 1 || len(slot.Adapters[0].Revision) != 71) {
			s.t.Errorf("slot %+v", slot)
		}
	}
	if table := s.ok("slots"); !strings.Contains(table, "tuned: adapter ") {
		s.t.Error(table)
	}
	resp, err := http.Get(s.proxy() + "/v1/models")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, want := range []string{`"id":"plain"`, `"id":"tuned"`, `"adapters":[{"name":"adapter.gguf","revision":"sha256:`} {
		if !strings.Contains(string(body), want) {
			s.t.Errorf("no %s in %s", want, body)
		}
	}
}

// A file that is no adapter of the model is an error of its slot alone.
func TestBadAdapterIsAnErrorOfItsSlot(t *testing.T) {
	path := model(t, "storyteller-q8_0.gguf")
	dir := t.TempDir()
	good, err := os.ReadFile(adapter(t, path))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("adapter { path = %q }", file)
	}
	header, err := gguf.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ggufwrite.Model{Kind: ggufwrite.Window, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
	if err != nil {
		t.Fatal(err)
	}
	otherBytes, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	otherModel := filepath.Join(dir, "other.gguf")
	if err := os.WriteFile(otherModel, otherBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	otherAdapter, err := os.ReadFile(adapter(t, otherModel))
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{
		"magic": "this is no GGUF file", "cut": "cut or damaged", "other": "models of architecture",
		"model": "and not an adapter", "none": "no such file",
	}
	s := serve(t, fmt.Sprintf("model \"story\" { path = %q }\n", path)+
		adaptedSlot("magic", write("magic", append([]byte("GGML"), good[4:]...)))+
		adaptedSlot("cut", write("cut", good[:len(good)/2]))+
		adaptedSlot("other", write("other", otherAdapter))+
		adaptedSlot("model", fmt.Sprintf("adapter { path = %q }", path))+
		adaptedSlot("none", fmt.Sprintf("adapter { path = %q }", filepath.Join(dir, "none")))+
		adaptedSlot("good", write("good", good)))
	for slot, want := range wants {
		a := s.adapted("--slot", slot, "Tell me a story.")
		if a.Error == nil || a.Error.Kind != "model_file" || !strings.Contains(a.Error.Message, want) || !strings.Contains(a.Error.Message, "adapter ") {
			t.Errorf("slot %s: %+v, want %q", slot, a.Error, want)
		}
	}
	if a := s.adapted("--slot", "good", "Tell me a story."); a.Error != nil || a.Text == "" {
		t.Errorf("the good one: %+v", a)
	}
	if out := s.run("validate", "-c", s.file); out.code == 0 || strings.Count(out.stderr, "Unusable adapter") != len(wants) {
		t.Errorf("validate: %d\n%s", out.code, out.stderr)
	}
}
