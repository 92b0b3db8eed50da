package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGroupMemory(t *testing.T) {
	root := t.TempDir()
	write := func(group, text string) {
		t.Helper()
		dir := filepath.Join(root, group)
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "memory.max"), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("/a", "4096\n")
	write("/a/b", "max\n")
	write("/a/b/c", "8192\n")
	for group, want := range map[string]uint64{"/a": 4096, "/a/b": 4096, "/a/b/c": 4096, "/": 0, "": 0, "/none": 0, "/../..": 0} {
		if got, ok := groupMemory(root, group); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", group, got, ok)
		}
	}
}
