package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

func makePipe(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Nobody is at the other end of these pipes: whatever waits for one makes the
// test run out of time.
func TestPipesInTheStateDir(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, lockFile)
	makePipe(t, lock)
	if s, err := OpenStateDir(dir); !errors.Is(err, regular.ErrNot) || shared.KindOf(err) != shared.KindConfig {
		t.Fatalf("with a pipe as its lock: %v, %v", s, err)
	}
	if got := lockHolder(lock); got != "another supervisor" {
		t.Errorf("the lock is held by %s", got)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	s := openTestStateDir(t, dir)
	makePipe(t, s.work("left", recordFile))
	makePipe(t, filepath.Join(dir, endpointFile))
	makePipe(t, filepath.Join(dir, "digests.json"))
	if _, err := readEndpoint(dir); !errors.Is(err, regular.ErrNot) {
		t.Errorf("the endpoint: %v", err)
	}
	if found, err := s.Reap(t.Context()); err != nil || len(found) != 2 {
		t.Errorf("reaped %+v, %v", found, err)
	}
	digests := openDigestCache(dir)
	if len(digests.entries) > 0 {
		t.Errorf("digests %v", digests.entries)
	}
	if err := digests.store(fileKey{path: "a"}, "sha256:00"); err != nil {
		t.Errorf("a new digest is not kept: %v", err)
	}
}

func TestPipeAsALog(t *testing.T) {
	l := newTestLauncher(t)
	path := l.cfg.State.LogPath("piped")
	makePipe(t, path)
	if _, err := l.Launch(t.Context(), "piped", "cpu"); !errors.Is(err, regular.ErrNot) {
		t.Errorf("the worker's start: %v", err)
	}
	if lines, signal := readLogTail(path, 0); lines != nil || signal != "" {
		t.Errorf("it tells %q, %q", lines, signal)
	}
}
