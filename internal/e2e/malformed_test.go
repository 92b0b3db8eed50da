package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMalformedModels serves one good slot beside slots whose files are broken
// in every way known: each of them has a clear error and is never resident, and
// nothing else is touched.
func TestMalformedModels(t *testing.T) {
	valid, err := os.ReadFile(model(t, "storyteller-q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var config strings.Builder
	fmt.Fprintf(&config, "model \"good\" { path = %q }\nslot \"good\" {\n  model = model.good\n  threads = 1\n  context { tokens = 256 }\n}\n", model(t, "storyteller-q8_0.gguf"))
	declare := func(name, path string) {
		fmt.Fprintf(&config, "model %q { path = %q }\nslot %q {\n  model = model[%q]\n  threads = 1\n  context { tokens = 256 }\n}\n", name, path, name, name)
	}
	want := map[string]string{} // slot to what is wrong with its file
	for i, c := range brokenModels(t, valid) {
		name := fmt.Sprintf("bad-%02d", i)
		path := filepath.Join(dir, name+".gguf")
		if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		want[name] = c.name
		declare(name, path)
	}
	fifo := filepath.Join(dir, "fifo.gguf")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"directory": dir, "fifo": fifo, "missing": filepath.Join(dir, "none.gguf")} {
		want[name] = name
		declare(name, path)
	}
	if len(want) < 20 {
		t.Fatalf("only %d broken files", len(want))
	}

	s := serve(t, config.String())
	s.served("good")
	slots := s.slots()
	for name, wrong := range want {
		slot := slots[name]
		if slot.Status == "resident" || slot.Status == "active" || len(slot.LastError) < 10 {
			t.Errorf("%s: the slot is %+v", wrong, slot)
		}
		if a := s.ask(name); a.Error == nil {
			t.Errorf("%s: it answered %+v", wrong, a)
		}
		t.Logf("%s: %s", wrong, slot.LastError)
	}
	if good := slots["good"]; good.Restarts != 0 || good.Status != "resident" {
		t.Errorf("the good slot is %+v", good)
	}
}
