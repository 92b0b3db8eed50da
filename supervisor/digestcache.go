package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/regular"
)

// digestCache remembers the digests of model files over restarts. An entry
// counts only for the very file that was hashed: same path, size, time of
// change and inode. Whoever loads the file still proves its bytes; the cache
// only spares the supervisor from reading them first.
type digestCache struct {
	path string // empty: nothing is kept beyond this process

	mu      sync.Mutex
	entries map[string]digestEntry
}

// fileKey tells one state of one file from every other.
type fileKey struct {
	path    string
	size    int64
	modTime int64 // nanoseconds
	inode   uint64
	more    string // the states of further parts
}

type digestEntry struct {
	Size     int64  `json:"size"`
	ModTime  int64  `json:"mtime_ns"`
	Inode    uint64 `json:"inode"`
	Revision string `json:"revision"`
	// Parts are the files of a split model after the first, and States says in which
	// state they were.
	Parts  []string `json:"parts,omitempty"`
	States string   `json:"states,omitempty"`
}

// digestFile is the cache as it is on disk.
type digestFile struct {
	Version int                    `json:"version"`
	Files   map[string]digestEntry `json:"files"`
}

const digestFileVersion = 1

// maxDigests bounds the file, which has some hundred bytes for each model file.
const maxDigests = 64 << 20

// fileKeyOf looks at a file, or at all parts of a split model.
func fileKeyOf(paths ...string) (fileKey, error) {
	path := paths[0]
	info, err := os.Stat(path)
	if err != nil {
		return fileKey{}, err
	}
	key := fileKey{path: path, size: info.Size(), modTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		key.inode = st.Ino
	}
	if abs, err := filepath.Abs(path); err == nil {
		key.path = abs
	}
	if len(paths) == 1 {
		return key, nil
	}
	var states []string
	for _, part := range paths[1:] {
		k, err := fileKeyOf(part)
		if err != nil {
			return fileKey{}, err
		}
		states = append(states, k.path, fmt.Sprint(k.size, k.modTime, k.inode))
	}
	key.more = shared.HashFields("firstframe/parts/v1", states...)
	return key, nil
}

// openDigestCache reads the cache of a state directory. One that cannot be
// read or understood is an empty one: digests are then computed again.
func openDigestCache(stateDir string) *digestCache {
	c := &digestCache{entries: map[string]digestEntry{}}
	if stateDir == "" {
		return c
	}
	c.path = filepath.Join(stateDir, "digests.json")
	data, err := regular.Read(c.path, maxDigests)
	if err != nil {
		return c
	}
	var f digestFile
	if json.Unmarshal(data, &f) != nil || f.Version != digestFileVersion {
		return c
	}
	for path, e := range f.Files {
		// Entries of files that are gone or were changed would only pile up.
		if key, err := fileKeyOf(append([]string{path}, e.Parts...)...); err == nil && e.of(path) == key && validRevision(e.Revision) {
			c.entries[path] = e
		}
	}
	return c
}

// validRevision keeps a damaged entry from becoming an identity.
func validRevision(rev string) bool {
	digest, ok := strings.CutPrefix(rev, "sha256:")
	raw, err := hex.DecodeString(digest)
	return ok && err == nil && len(raw) == sha256.Size
}

func (e digestEntry) of(path string) fileKey {
	return fileKey{path: path, size: e.Size, modTime: e.ModTime, inode: e.Inode, more: e.States}
}

func (c *digestCache) lookup(key fileKey) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key.path]
	if !ok || e.of(key.path) != key {
		return "", false
	}
	return e.Revision, true
}

// store keeps a digest, on disk too. Parts are those after the first.
func (c *digestCache) store(key fileKey, revision string, parts ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key.path] = digestEntry{Size: key.size, ModTime: key.modTime, Inode: key.inode, Revision: revision, Parts: parts, States: key.more}
	if c.path == "" {
		return nil
	}
	data, err := json.MarshalIndent(digestFile{Version: digestFileVersion, Files: c.entries}, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot encode the digests: %w", err)
	}
	return writeFileAtomic(c.path, append(data, '\n'))
}
