package hcl

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/firstframe/firstframe/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// patience bounds the wait for what is sure to come.
const patience = 20 * time.Second

// watched runs a watcher and gives what wants the next change to be noticed.
func watched(t *testing.T, path string) func(what string) {
	t.Helper()
	w, err := NewWatcher(path)
	if err != nil {
		t.Fatal(err)
	}
	changes, ended := make(chan struct{}, 100), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- w.Run(ctx, func() { changes <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(what string) {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(patience):
			t.Fatalf("not noticed: %s", what)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// flip lets a link point elsewhere, in one step.
func flip(t *testing.T, link, target string) {
	t.Helper()
	must(t, os.Symlink(target, link+".new"))
	must(t, os.Rename(link+".new", link))
}

func TestWatchSeesHoweverAFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf", "a.hcl")
	put(t, file, "one")
	next := watched(t, file)
	put(t, file, "two")
	next("a write")
	put(t, file+".tmp", "three")
	must(t, os.Rename(file+".tmp", file))
	next("a rename")
	put(t, file, "four")
	next("a write after the rename")
	must(t, os.Remove(file))
	next("its removal")
	put(t, file, "five")
	next("its return")
	put(t, filepath.Join(dir, "conf.new", "a.hcl"), "six")
	must(t, os.Rename(filepath.Join(dir, "conf"), filepath.Join(dir, "conf.old")))
	must(t, os.Rename(filepath.Join(dir, "conf.new"), filepath.Join(dir, "conf")))
	next("another folder in its place")
	put(t, file, "seven")
	next("a write in that folder")
}

// A mounted config map: the file is a link through a link that is flipped.
func TestWatchSeesLinksFlip(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "mount", "..1", "a.hcl"), "one")
	put(t, filepath.Join(dir, "mount", "..2", "a.hcl"), "two")
	put(t, filepath.Join(dir, "mount", "..3", "a.hcl"), "three")
	must(t, os.Symlink("..1", filepath.Join(dir, "mount", "..data")))
	must(t, os.Symlink(filepath.Join("..data", "a.hcl"), filepath.Join(dir, "mount", "a.hcl")))
	// And a link to that from elsewhere.
	must(t, os.Mkdir(filepath.Join(dir, "etc"), 0o700))
	link := filepath.Join(dir, "etc", "linked.hcl")
	must(t, os.Symlink(filepath.Join("..", "mount", "a.hcl"), link))
	next := watched(t, link)
	flip(t, filepath.Join(dir, "mount", "..data"), "..2")
	next("the flip")
	put(t, filepath.Join(dir, "mount", "..2", "a.hcl"), "two and a half")
	next("a write behind the links")
	flip(t, filepath.Join(dir, "mount", "..data"), "..3")
	next("the second flip")
	put(t, filepath.Join(dir, "etc", "own.hcl"), "four")
	flip(t, link, "own.hcl")
	next("a flip of the first link")
}

// A flip may come between following the links and watching their folders.
func TestWatchTellsOfAFlipWhileItLooks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"..1", "..2"} {
		put(t, filepath.Join(dir, name, "a.hcl"), name)
	}
	data, link := filepath.Join(dir, "..data"), filepath.Join(dir, "a.hcl")
	must(t, os.Symlink("..1", data))
	must(t, os.Symlink(filepath.Join("..data", "a.hcl"), link))
	w, err := NewWatcher(link)
	must(t, err)
	found, err := walk(link)
	must(t, err)
	if steady, err := w.watch(found); err != nil || !steady {
		t.Errorf("nothing moved, and it says steady = %v, %v", steady, err)
	}
	flip(t, data, "..2")
	if steady, err := w.watch(found); err != nil || steady {
		t.Errorf("a link moved, and it says steady = %v, %v", steady, err)
	}
	must(t, w.Close())
}

func TestWatchSeesFilesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a.hcl"), "one")
	next := watched(t, dir)
	put(t, filepath.Join(dir, "b.hcl"), "two")
	next("another file")
	must(t, os.Remove(filepath.Join(dir, "a.hcl")))
	next("one file less")
	other := t.TempDir()
	put(t, filepath.Join(other, "x"), "three")
	must(t, os.Symlink(filepath.Join(other, "x"), filepath.Join(dir, "c.hcl")))
	next("a link to a file")
	put(t, filepath.Join(other, "x"), "four")
	next("a write to the link's target")
}

// What is done between NewWatcher and Run is noticed, and the same text is no change.
func TestWatchComparesTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.hcl")
	put(t, file, "one")
	w, err := NewWatcher(file)
	must(t, err)
	put(t, file, "two")
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	must(t, w.Run(ctx, func() {
		if seen++; seen == 1 {
			put(t, file, "two")
			put(t, filepath.Join(filepath.Dir(file), "b.hcl"), "two")
			put(t, file+".tmp", "three")
			must(t, os.Rename(file+".tmp", file))
			return
		}
		cancel()
	}))
	must(t, w.Close())
	if seen != 2 {
		t.Errorf("%d changes were noticed", seen)
	}
	w, err = NewWatcher(filepath.Join(t.TempDir(), "none", "deep", "a.hcl")) // it may come
	must(t, err)
	must(t, w.Close())
}
