package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSameContent(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int, last byte) string {
		path := filepath.Join(dir, name)
		data := make([]byte, size)
		data[size-1] = last
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const block = 1 << 20
	one, long := write("one", block, 1), write("long", 2*block+5, 1)
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{one, one, true},
		{one, write("copy", block, 1), true},
		{one, write("other", block, 2), false},
		{one, long, false},
		{long, write("long copy", 2*block+5, 1), true},
		{long, write("long other", 2*block+5, 2), false},
	} {
		same, err := sameContent(c.a, c.b)
		if err != nil || same != c.same {
			t.Errorf("%s and %s: %v, %v", c.a, c.b, same, err)
		}
	}
	if _, err := sameContent(one, filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is not an error")
	}
}
