package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared/regular"
)

// Nobody is at the other end of the pipe: whoever waits for it makes this test
// run out of time.
func TestNothingElseIsOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, "/dev/zero", "/dev/null"} {
		_, _, open := regular.Open(path)
		_, _, write := regular.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		_, read := regular.Read(path, 10)
		for what, err := range map[string]error{"open": open, "write": write, "read": read, "ensure": regular.Ensure(path, 0o600)} {
			if !errors.Is(err, regular.ErrNot) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s of %s: %v", what, path, err)
			}
		}
	}
}

func TestFilesAreReadAndMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := regular.Read(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if err := regular.Ensure(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, _, err := regular.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("0123456789"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := regular.Ensure(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regular.Read(path, 10); err != nil || string(text) != "0123456789" {
		t.Errorf("read %q, %v", text, err)
	}
	if _, err := regular.Read(path, 9); err == nil || !strings.Contains(err.Error(), "larger than 9 bytes") {
		t.Errorf("what is too large: %v", err)
	}
}
