package hcl

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long nothing has to happen before a configuration is read: what
// writes files does so in several steps.
const settle = 100 * time.Millisecond

// maxLinks bounds how many symbolic links a path is followed through.
const maxLinks = 40

// Watcher notices when the text of a configuration has changed, whether its files
// are written to, replaced by a rename, or reached through links that now point
// elsewhere. It watches folders, because a watch on a file follows the file that
// was there and not the name.
type Watcher struct {
	path    string
	events  *fsnotify.Watcher
	entries entries
	seen    [sha256.Size]byte
}

// NewWatcher starts to watch. Changes from here on are noticed by Run.
func NewWatcher(path string) (*Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch the configuration: %w", err)
	}
	w := &Watcher{path: path, events: events}
	if _, err := w.look(); err != nil { // Run looks again
		return nil, errors.Join(err, events.Close())
	}
	w.seen = fingerprint(path)
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() error { return w.events.Close() }

// Run calls changed after each change, until ctx ends or the system refuses to
// tell more. Changes that come together are one.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	quiet := time.NewTimer(0) // for what happened before Run
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, ok := <-w.events.Events:
			if !ok {
				return nil
			}
			if w.entries.have(ev.Name) {
				quiet.Reset(settle)
			}
		case err, ok := <-w.events.Errors:
			if !ok {
				return nil
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("cannot watch the configuration any more: %w", err)
			}
			quiet.Reset(settle) // something may have been missed
		case <-quiet.C:
			// The folders first: what changes after them makes another event.
			steady, err := w.look()
			if err != nil {
				return err
			}
			if !steady {
				quiet.Reset(settle)
			}
			if now := fingerprint(w.path); now != w.seen {
				w.seen = now
				changed()
			}
		}
	}
}

// look sets all watches anew, since a folder of the same name may be another one.
func (w *Watcher) look() (steady bool, err error) {
	found, err := walk(w.path)
	if err != nil {
		return false, err
	}
	return w.watch(found)
}

// watch sets the watches for what was found. A link that is flipped after it was
// followed and before its folder is watched again makes no event, so the path is
// followed once more: steady says that it led to the same.
func (w *Watcher) watch(found entries) (steady bool, err error) {
	for _, dir := range w.events.WatchList() {
		_ = w.events.Remove(dir) // one that is gone need not be removed
	}
	w.entries = found
	var last error
	added := 0
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if err := w.events.Add(dir); err != nil {
			last = err
			continue
		}
		added++
	}
	if added == 0 {
		return false, fmt.Errorf("cannot watch the configuration: %w", last)
	}
	again, err := walk(w.path)
	return reflect.DeepEqual(found, again), err
}

// walk notes the entries on which it hangs what a path means now.
func walk(path string) (entries, error) {
	found := entries{}
	if err := found.configuration(path); err != nil {
		return nil, fmt.Errorf("cannot watch the configuration: %w", err)
	}
	return found, nil
}

// fingerprint tells one text of a configuration from another. That it cannot be
// read is a text, too.
func fingerprint(path string) [sha256.Size]byte {
	sources, diags := read(path)
	h := sha256.New()
	part := func(text []byte) {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(text)))
		h.Write(size[:])
		h.Write(text)
	}
	for _, s := range sources {
		part([]byte(s.Name))
		part(s.Text)
	}
	for _, d := range diags {
		part([]byte(d.Detail))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// entries are the names, by folder, on which it hangs what a path means.
type entries map[string]map[string]bool

func (e entries) add(dir, name string) {
	if e[dir] == nil {
		e[dir] = map[string]bool{}
	}
	e[dir][name] = true
}

// have reports whether a change of this file may be a change of the meaning.
func (e entries) have(file string) bool {
	dir, name := filepath.Split(file)
	dir = filepath.Clean(dir)
	_, folder := e[file] // the folder itself was moved or removed
	return folder || e[dir][name] || e[dir][anyConfig] && filepath.Ext(name) == ".hcl"
}

// anyConfig stands for all files of a folder that is a configuration.
const anyConfig = "*.hcl"

func (e entries) configuration(path string) error {
	end, err := e.follow(path)
	if err != nil {
		return err
	}
	files, err := filesAt(path)
	if err != nil {
		return nil // it may come; then there is an event
	}
	for _, file := range files {
		if file == path {
			continue
		}
		e.add(end, anyConfig)
		if _, err := e.follow(file); err != nil {
			return err
		}
	}
	return nil
}

// follow walks a path as the system does, and notes every link, the end and the
// folder that the end lies in. It returns where the path ends.
func (e entries) follow(path string) (string, error) {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = wd + string(filepath.Separator) + path
	}
	at, left := string(filepath.Separator), components(path)
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		if len(left) <= 1 {
			e.add(at, name)
		}
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // not a link, or not there
			if _, err := os.Lstat(next); err != nil {
				e.add(at, name)
				return next, nil
			}
			at = next
			continue
		}
		e.add(at, name)
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s has more than %d links", path, maxLinks)
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		left = append(components(target), left...)
	}
	return at, nil
}

func components(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(c string) bool { return c == "" || c == "." })
}
