package gguf_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared/gguf"
)

func TestReadFileTakesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{dir, "a directory, not a regular file"},
		{pipe, "a named pipe, not a regular file"},
		{"/dev/zero", "not a regular file"},
		{loop, "cannot open model file"},
		{filepath.Join(dir, "absent"), "cannot open model file"},
		{empty, "read model file " + empty + ": file header at byte 0: the file is empty"},
	} {
		_, err := gguf.ReadFile(c.path)
		wantModelError(t, err, c.want)
	}
	if _, err := gguf.ReadFile(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestReadFileFollowsLinks(t *testing.T) {
	target, err := filepath.Abs(filepath.Join(models, "storyteller-q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.ReadFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if f.Size() != 1877760 {
		t.Errorf("the size is %d", f.Size())
	}
}
