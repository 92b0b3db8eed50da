package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is in the file: opening it does not fail, and only a well-formed
// entry of exactly the present file gives a revision.
func FuzzDigestCache(f *testing.F) {
	model := filepath.Join(f.TempDir(), "model.gguf")
	if err := os.WriteFile(model, []byte("weights"), 0o600); err != nil {
		f.Fatal(err)
	}
	key, err := fileKeyOf(model)
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	revision := "sha256:" + strings.Repeat("ab", 32)
	if err := openDigestCache(dir).store(key, revision); err != nil {
		f.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(dir, "digests.json"))
	if err != nil {
		f.Fatal(err)
	}
	if got, ok := openDigestCache(dir).lookup(key); !ok || got != revision {
		f.Fatalf("what was stored is read as %q, %v", got, ok)
	}
	for _, seed := range []string{
		string(written), string(written[:len(written)/2]), "", "null", `{"version":1,"files":{"":{}}}`,
		strings.Replace(string(written), `"version": 1`, `"version": 2`, 1),
		strings.Replace(string(written), "abab", "ABxx", 1),
		strings.Replace(string(written), "sha256:", "", 1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "digests.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := openDigestCache(dir)
		if rev, ok := c.lookup(key); ok && !validRevision(rev) {
			t.Errorf("%q counts as a revision", rev)
		}
		if err := c.store(key, revision); err != nil {
			t.Fatal(err)
		}
		if rev, ok := openDigestCache(dir).lookup(key); !ok || rev != revision {
			t.Errorf("after a repair the cache says %q, %v", rev, ok)
		}
	})
}

func TestDigestIsForgottenWhenTheFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	write := func(text string) fileKey {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := fileKeyOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	c := openDigestCache("")
	first := write("short")
	if err := c.store(first, "sha256:x"); err != nil {
		t.Fatal(err)
	}
	second := write("not so short")
	if rev, ok := c.lookup(second); ok {
		t.Errorf("the changed file has the old digest %s", rev)
	}
	if _, ok := c.lookup(first); !ok {
		t.Error("the digest is gone before there is another")
	}
}

func TestAtomicWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	if err := writeFileAtomic(filepath.Join(dir, "none", "x"), nil); err == nil {
		t.Error("a folder that is not there was written to")
	}
	// A folder in the place of the file makes the last step fail.
	if err := os.MkdirAll(filepath.Join(dir, "x", "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFileAtomic(filepath.Join(dir, "x"), []byte("new")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// The digest of a split model counts as long as no part of it has changed.
func TestDigestOfPartsIsForgottenWithAnyOfThem(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	for _, p := range paths {
		if err := os.WriteFile(p, []byte(p), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := fileKeyOf(paths...)
	if err != nil {
		t.Fatal(err)
	}
	revision := "sha256:" + strings.Repeat("ab", 32)
	if err := openDigestCache(dir).store(key, revision, paths[1:]...); err != nil {
		t.Fatal(err)
	}
	if got, ok := openDigestCache(dir).lookup(key); !ok || got != revision {
		t.Errorf("%q, %v", got, ok)
	}
	if err := os.WriteFile(paths[2], []byte("another part"), 0o600); err != nil {
		t.Fatal(err)
	}
	now, err := fileKeyOf(paths...)
	if err != nil {
		t.Fatal(err)
	}
	c := openDigestCache(dir)
	if _, ok := c.lookup(now); ok || len(c.entries) != 0 {
		t.Error("a part was changed and the digest is still known")
	}
	if alone, err := fileKeyOf(paths[0]); err != nil || alone == key {
		t.Errorf("the first part alone passes for the model: %v", err)
	}
}
