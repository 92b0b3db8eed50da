package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

func openTestStateDir(t *testing.T, dir string) *StateDir {
	t.Helper()
	s, err := OpenStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStateDirIsMadePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	openTestStateDir(t, dir)
	for _, path := range []string{dir, filepath.Join(dir, workDir), filepath.Join(dir, logDir)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestStateDirHasOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		first := openTestStateDir(t, dir)
		_, err := OpenStateDir(dir)
		if shared.KindOf(err) != shared.KindConfig || !errors.Is(err, ErrStateDirInUse) ||
			!strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v of kind %v", err, shared.KindOf(err))
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		openTestStateDir(t, dir)
	})
}

func TestStateDirOfADyingOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		first := openTestStateDir(t, dir)
		time.AfterFunc(lockPatience/2, func() {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		})
		openTestStateDir(t, dir)
	})
}

func TestStateDirIsRefused(t *testing.T) {
	base := t.TempDir()
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o770); err != nil {
		t.Fatal(err)
	}
	openWork := filepath.Join(base, "work")
	if err := os.MkdirAll(filepath.Join(openWork, workDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(openWork, workDir), 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		open:     "mode 0770",
		openWork: "mode 0777",
		file:     "not a directory",
		filepath.Join(base, strings.Repeat("long", 20)): "state_dir",
	} {
		_, err := OpenStateDir(path)
		if shared.KindOf(err) != shared.KindConfig || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v of kind %v", path, err, shared.KindOf(err))
		}
	}
	// A refusal does not leave the lock behind.
	if err := os.Chmod(filepath.Join(openWork, workDir), 0o700); err != nil {
		t.Fatal(err)
	}
	openTestStateDir(t, openWork)
}

func TestSlotNamesStayInTheirFolder(t *testing.T) {
	s := &StateDir{path: "/state"}
	seen := map[string]string{}
	for _, id := range []string{"story", "story/0", "story%2F0", "..", ".", "../..", "/", ".hidden", "%2E."} {
		for path, dir := range map[string]string{s.SlotDir(id): slotDir, s.LogPath(id): logDir} {
			if filepath.Dir(path) != filepath.Join("/state", dir) {
				t.Errorf("slot %q has %s", id, path)
			}
			if other, taken := seen[path]; taken {
				t.Errorf("slots %q and %q have the same path %s", id, other, path)
			}
			seen[path] = id
		}
	}
}

func TestDefaultStateDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	if got := DefaultStateDir(); got != "/run/user/1/firstframe" {
		t.Errorf("got %s", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/elsewhere")
	if got, want := DefaultStateDir(), fmt.Sprintf("/elsewhere/firstframe-%d", os.Getuid()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReapOfDamagedRecords(t *testing.T) {
	s := openTestStateDir(t, t.TempDir())
	mine, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// The pid is that of this test, which must live: only the start tells that
	// it is not the process of the record.
	other := mine
	other.Start += "1"
	for name, content := range map[string]string{
		"none":    "",
		"cut":     `{"pid": 12`,
		"reused":  fmt.Sprintf(`{"pid": %d, "start": %q}`, other.PID, other.Start),
		"noStart": fmt.Sprintf(`{"pid": %d}`, mine.PID),
		"init":    `{"pid": 1, "start": ""}`,
		"minus":   `{"pid": -1, "start": "x"}`,
	} {
		if err := os.MkdirAll(s.work(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.work(name, recordFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Path(), endpointFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := s.Reap(t.Context())
	if err != nil || len(found) != 7 {
		t.Errorf("got %+v, %v", found, err)
	}
	for _, r := range found {
		if r.Killed {
			t.Errorf("killed %+v", r)
		}
		if _, err := os.Stat(r.Path); !os.IsNotExist(err) {
			t.Errorf("%s is still there", r.Path)
		}
	}
	if found, err := s.Reap(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("again: %+v, %v", found, err)
	}
}
