package pages

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pageFileBytes is the size of a full page's file in tests.
func pageFileBytes(t *testing.T) int64 {
	r := open(t, testConfig(t.TempDir()))
	r.save(seq(1, 4), "")
	r.flush()
	defer r.close()
	return r.Stats().Disk.Bytes
}

func TestDiskEvictsWhatWasUsedLongestAgo(t *testing.T) {
	size := pageFileBytes(t)
	cfg := testConfig(t.TempDir())
	cfg.DiskBytes = 20 * size
	r := open(t, cfg)
	var names []string
	for g := range 19 {
		r.save(seq(g, 4), "")
		names = append(names, filepath.Join(cfg.Dir, nameOf(NewSpace(testIdentity, ""), 0, r.NewPrompt(seq(g, 4)).Hash(0)).String()))
	}
	r.close()
	age(t, names)
	r = open(t, cfg)
	r.use(seq(0, 5), "") // marks the oldest as used
	r.flush()
	for g := 19; g < 23; g++ {
		r.save(seq(g, 4), "")
		r.flush()
		if st := r.Stats(); st.DiskAll.Bytes > cfg.DiskBytes {
			t.Fatalf("%d bytes are on disk", st.DiskAll.Bytes)
		}
	}
	checkDirectory(t, r)
	if st := r.Stats(); st.Disk != st.DiskAll {
		t.Errorf("the index knows of %+v, the directory has %+v", st.Disk, st.DiskAll)
	}
	r.close()
	r = open(t, cfg)
	for g, want := range map[int]int{0: 4, 1: 0, 2: 0, 10: 4, 19: 4, 22: 4} {
		if p := r.use(seq(g, 5), ""); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens were restored", g, p.Tokens)
		}
	}
}

// A smaller limit than before holds from the start.
func TestDiskShrinksAtStart(t *testing.T) {
	cfg := testConfig(t.TempDir())
	r := open(t, cfg)
	r.save(seq(1, 80), "")
	r.close()
	cfg.DiskBytes = r.Stats().Disk.Bytes / 2
	r = open(t, cfg)
	r.flush()
	checkDirectory(t, r)
	if st := r.Stats(); st.DiskAll.Bytes > cfg.DiskBytes || st.DiskAll.Pages == 0 || st.Disk != st.DiskAll {
		t.Fatalf("%+v", st)
	}
}

// Marks of use reach the disk also when a page is served from host memory.
func TestHostHitsKeepPagesOnDisk(t *testing.T) {
	r := open(t, testConfig(t.TempDir()))
	r.save(seq(1, 4), "")
	r.flush()
	name := files(t, r.dir)[0]
	age(t, []string{name})
	r.mu.Lock()
	for _, e := range r.byFile {
		e.disk.touched = time.Now().Add(-2 * touchEvery)
	}
	r.mu.Unlock()
	if p := r.use(seq(1, 5), ""); p.DiskTokens != 0 {
		t.Fatal("the page was read from disk")
	}
	r.flush()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(info.ModTime()) > 10*time.Minute {
		t.Error("the page looks unused")
	}
}

func TestOlderVersionsGoFirst(t *testing.T) {
	cfg := testConfig(t.TempDir())
	r := open(t, cfg)
	r.save(seq(1, 4), "")
	r.flush()
	name := files(t, cfg.Dir)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(b[8:], fileVersion-1)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.close()
	r = open(t, cfg)
	r.flush()
	r.want(r.use(seq(1, 5), ""), 0, ReasonTokenHash, -1)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.ModTime().Unix() != 0 || len(quarantined(t, cfg.Dir)) != 0 {
		t.Errorf("mode %v, in quarantine %v", info.ModTime(), quarantined(t, cfg.Dir))
	}
}
