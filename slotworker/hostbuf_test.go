package slotworker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/firstframe/firstframe/shared"
)

func bothTransfers(t *testing.T, f func(*testing.T, shared.Transfer)) {
	for _, transfer := range []shared.Transfer{shared.TransferMmap, shared.TransferPageable} {
		t.Run(string(transfer), func(t *testing.T) { f(t, transfer) })
	}
}

// randomFile writes a file of several blocks and a part of one.
func randomFile(t *testing.T) (path string, content []byte) {
	t.Helper()
	content = make([]byte, 9*hostBlock+12345)
	if _, err := rand.NewChaCha8([32]byte{}).Read(content); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestHostBufferHoldsTheFile(t *testing.T) {
	bothTransfers(t, func(t *testing.T, transfer shared.Transfer) {
		path, content := randomFile(t)
		var told []int64
		h, err := readHost(t.Context(), hostOrder{path: path, transfer: transfer}, func(done, total int64) {
			if total != int64(len(content)) {
				t.Errorf("total %d", total)
			}
			told = append(told, done)
		})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if want := "sha256:" + hex.EncodeToString(sum[:]); h.digest != want || !bytes.Equal(h.parts[0].data, content) {
			t.Errorf("digest %s, want %s", h.digest, want)
		}
		if len(told) != 10 || told[9] != int64(len(content)) {
			t.Errorf("progress %v", told)
		}
		source := h.source()
		if transfer == shared.TransferMmap {
			read, err := os.ReadFile(source.Path)
			if err != nil || !bytes.Equal(read, content) || source.Bytes != nil {
				t.Errorf("the engine reads something else: %v", err)
			}
		} else if source.Path != "" || &source.Bytes[0] != &h.parts[0].data[0] {
			t.Errorf("the engine does not read the buffer")
		}
		if err := h.release(); err != nil {
			t.Error(err)
		}
	})
}

// TestEngineSeesTheSameInode: what was read is what the engine opens, whatever
// the path names by now.
func TestEngineSeesTheSameInode(t *testing.T) {
	path, content := randomFile(t)
	h, err := readHost(t.Context(), hostOrder{path: path, transfer: shared.TransferMmap}, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.release() }()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another model"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := os.ReadFile(h.source().Path)
	if err != nil || !bytes.Equal(read, content) {
		t.Errorf("the engine reads %d bytes, %v", len(read), err)
	}
	if h.holds(path, shared.TransferMmap) {
		t.Error("the buffer passes for the file that took the place of its own")
	}
}

func TestFileChangedDuringTheRead(t *testing.T) {
	changes := map[string]func(path string, content []byte) error{
		"touched": func(path string, _ []byte) error {
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
		},
		"longer": func(path string, content []byte) error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x")
			return firstError(err, f.Close())
		},
		"cut short": func(path string, _ []byte) error { return os.Truncate(path, hostBlock/2) },
		"replaced": func(path string, content []byte) error {
			return firstError(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path))
		},
		"removed": func(path string, _ []byte) error { return os.Remove(path) },
	}
	bothTransfers(t, func(t *testing.T, transfer shared.Transfer) {
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				path, content := randomFile(t)
				changed := false
				_, err := readHost(t.Context(), hostOrder{path: path, transfer: transfer}, func(int64, int64) {
					if changed {
						return
					}
					changed = true
					if err := change(path, content); err != nil {
						t.Error(err)
					}
				})
				if shared.KindOf(err) != shared.KindModelFile {
					t.Errorf("got %v", err)
				}
			})
		}
	})
}

// TestMemoryFaultIsAnError reads a mapping whose file has gone from under it.
func TestMemoryFaultIsAnError(t *testing.T) {
	path, _ := randomFile(t)
	h, err := readHost(t.Context(), hostOrder{path: path, transfer: shared.TransferMmap}, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.release() }()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	sum := func() (err error) {
		defer faultToError(&err, path)()
		sha256.Sum256(h.parts[0].data[hostBlock:])
		return nil
	}
	if err := sum(); shared.KindOf(err) != shared.KindModelFile {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoModelFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		pipe: "not a regular file", dir: "not a regular file", "/dev/null": "not a regular file",
		empty: "empty", filepath.Join(dir, "missing"): "no such file",
	} {
		_, err := readHost(t.Context(), hostOrder{path: path, transfer: shared.TransferMmap}, func(int64, int64) {})
		if shared.KindOf(err) != shared.KindModelFile || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestReadIsCancelled(t *testing.T) {
	bothTransfers(t, func(t *testing.T, transfer shared.Transfer) {
		path, _ := randomFile(t)
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		_, err := readHost(ctx, hostOrder{path: path, transfer: transfer}, func(int64, int64) {
			if told++; told == 2 {
				cancel()
			}
		})
		if shared.KindOf(err) != shared.KindCancelled || told > 2 {
			t.Errorf("got %v after %d blocks", err, told)
		}
	})
}

func TestRefusedLockIsSaid(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
			t.Error(err)
		}
	}()
	path, content := randomFile(t)
	h, err := readHost(t.Context(), hostOrder{path: path, transfer: shared.TransferMmap}, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.release() }()
	if !bytes.Equal(h.parts[0].data, content) {
		t.Error("without the lock the buffer holds something else")
	}
	// A privileged process may lock beyond its limit.
	if !h.pinned && !strings.Contains(h.pinNote, "65536 bytes") {
		t.Errorf("the note says %q", h.pinNote)
	}
	if note := pinNote(unix.ENOMEM, 3383040); note != "mlock refused: memlock limit 65536 bytes, the model has 3383040" {
		t.Errorf("the note says %q", note)
	}
}

func TestModelFileChangedAfterThePrefetch(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	if _, err := s.prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(s.spec.ModelPath, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s.engine.loadHook = func(LoadRequest) error { t.Error("the engine was given a file that was changed"); return nil }
	if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected}); shared.KindOf(err) != shared.KindModelFile {
		t.Errorf("got %v", err)
	}
	s.engine.loadHook = nil
	if st := s.status(); st.Status != shared.SlotEmpty || st.HostBytes != 0 {
		t.Errorf("a buffer that proves nothing any more was kept: %+v", st)
	}
	s.prepare()
	// Changed while the engine reads it.
	if _, err := s.Evict(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.prefetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.engine.loadHook = func(LoadRequest) error {
		return os.Chtimes(s.spec.ModelPath, time.Time{}, time.Now().Add(2*time.Hour))
	}
	if _, err := s.Activate(t.Context(), shared.ActivateRequest{Expected: s.expected}); shared.KindOf(err) != shared.KindModelFile {
		t.Errorf("got %v", err)
	}
}
