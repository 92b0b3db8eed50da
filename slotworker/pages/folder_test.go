package pages

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// someFiles writes a usable page, one of an older format whose bytes are in every
// other respect those of a page that could be used, one of a newer format, a
// damaged one and one in quarantine.
func someFiles(t *testing.T) (dir string, usable header) {
	t.Helper()
	dir = t.TempDir()
	d := newDisk(dir, math.MaxInt64, NewOSFiles(), folderWait)
	if _, err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func(index int, change func([]byte) []byte) header {
		payload := []byte("rows")
		h := header{
			space: Space{ModelRevision: "sha256:m", TokenizerRevision: "t", LayoutRevision: "l", SlotRevision: "s"}, index: index,
			page: 64, tokens: []int32{1, 2, 3}, shape: "x", payload: int64(len(payload)),
		}
		if _, _, err := d.write(t.Context(), &h, payload); err != nil {
			t.Fatal(err)
		}
		path := d.path(h.name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(b), 0o600); err != nil {
			t.Fatal(err)
		}
		return h
	}
	version := func(v uint16) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint16(b[8:], v)
			fields := len(b) - len("rows") - 2*checksumBytes
			binary.LittleEndian.PutUint64(b[fields:], xxhash.Sum64(b[:fields]))
			binary.LittleEndian.PutUint64(b[len(b)-checksumBytes:], xxhash.Sum64(b[:len(b)-checksumBytes]))
			return b
		}
	}
	usable = write(0, func(b []byte) []byte { return b })
	write(1, version(fileVersion-1))
	write(2, version(fileVersion+1))
	write(3, func(b []byte) []byte { b[40] ^= 1; return b })
	if err := os.WriteFile(filepath.Join(dir, quarantineDir, usable.name().String()+".checksum"), []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.leave(); err != nil {
		t.Fatal(err)
	}
	return dir, usable
}

func statesOf(files []FolderFile) map[FileState]int {
	states := map[FileState]int{}
	for _, f := range files {
		states[f.State]++
	}
	return states
}

func TestFolderTellsFilesApart(t *testing.T) {
	dir, usable := someFiles(t)
	folder := NewFolder(dir)
	files, err := folder.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := statesOf(files)
	for _, s := range []FileState{FileUsable, FileOlder, FileNewer, FileDamaged, FileAside} {
		if states[s] != 1 {
			t.Errorf("%d files are %s", states[s], s)
		}
	}
	for _, f := range files {
		// What is of another format is never read as if it were of this one.
		if used := f.State == FileUsable; used != (f.Space == usable.space) || used != (f.Tokens == 3) {
			t.Errorf("%+v", f)
		}
	}
	all := func(FolderFile) bool { return true }
	if got, err := folder.Prune(t.Context(), all, true); err != nil || len(got) != 5 {
		t.Fatalf("a dry run: %v, %v", got, err)
	}
	old := func(f FolderFile) bool { return f.State != FileUsable && f.State != FileNewer }
	if got, err := folder.Prune(t.Context(), old, false); err != nil || len(got) != 3 {
		t.Fatalf("removed: %v, %v", got, err)
	}
	files, err = folder.Files(t.Context())
	if states := statesOf(files); err != nil || len(files) != 2 || states[FileUsable] != 1 || states[FileNewer] != 1 {
		t.Errorf("left: %v, %v", files, err)
	}
	d := newDisk(dir, math.MaxInt64, NewOSFiles(), folderWait)
	if u, ok := d.readUsage(); !ok || u.files != 2 {
		t.Errorf("the sum says %+v", u)
	}
	if none, err := NewFolder(filepath.Join(dir, "none")).Files(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
