package modelstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// Prefixes of names in a store.
const (
	PrefixOllama      = "ollama:"
	PrefixHuggingFace = "hf:"
)

// Named reports whether a path is a name in a store. A file of such a name is
// reached as ./NAME.
func Named(path string) bool {
	return strings.HasPrefix(path, PrefixOllama) || strings.HasPrefix(path, PrefixHuggingFace)
}

// Model is a file that was found.
type Model struct {
	// Path is the file that holds the bytes, and no link to it.
	Path string
	// SHA256 is the digest under which the store keeps the file, in hex, empty when
	// it keeps it under none. It is what the store says: whoever loads the file
	// proves its bytes.
	SHA256 string
	// Name is what the model is called without the store, its tag included.
	Name string
}

// Stores is where the stores are. Folders that do not exist are empty stores.
type Stores struct {
	// Ollama are folders with manifests and blobs, searched in this order.
	Ollama []Folder
	// HuggingFace is the cache with a folder for each repository.
	HuggingFace Folder
}

// Folder is a folder with how people know it.
type Folder struct{ Path, Label string }

// FromEnvironment finds the stores as their own programs do; lookup is
// os.LookupEnv.
func FromEnvironment(lookup func(string) (string, bool)) Stores {
	var s Stores
	get := func(name string) string { v, _ := lookup(name); return v }
	home := get("HOME")
	if dir := get("OLLAMA_MODELS"); dir != "" {
		s.Ollama = []Folder{{dir, "$OLLAMA_MODELS"}}
	} else {
		if home != "" {
			s.Ollama = append(s.Ollama, Folder{filepath.Join(home, ".ollama", "models"), "~/.ollama/models"})
		}
		// Where its service on Linux keeps them.
		s.Ollama = append(s.Ollama, Folder{"/usr/share/ollama/.ollama/models", "/usr/share/ollama/.ollama/models"})
	}
	switch {
	case get("HF_HUB_CACHE") != "":
		s.HuggingFace = Folder{get("HF_HUB_CACHE"), "$HF_HUB_CACHE"}
	case get("HF_HOME") != "":
		s.HuggingFace = Folder{filepath.Join(get("HF_HOME"), "hub"), "$HF_HOME/hub"}
	case get("XDG_CACHE_HOME") != "":
		s.HuggingFace = Folder{filepath.Join(get("XDG_CACHE_HOME"), "huggingface", "hub"), "$XDG_CACHE_HOME/huggingface/hub"}
	case home != "":
		s.HuggingFace = Folder{filepath.Join(home, ".cache", "huggingface", "hub"), "~/.cache/huggingface/hub"}
	}
	return s
}

// Find finds the file of a name such as ollama:llama3.2:1b or hf:ORG/REPO/FILE.gguf.
func (s Stores) Find(name string) (Model, error) {
	if rest, ok := strings.CutPrefix(name, PrefixOllama); ok {
		return s.ollama(rest)
	}
	if rest, ok := strings.CutPrefix(name, PrefixHuggingFace); ok {
		return s.huggingFace(rest)
	}
	return Model{}, shared.Errorf(shared.KindInvalid, "a name in a store begins with %s or %s", PrefixOllama, PrefixHuggingFace)
}

// part is one element of a name: it can be joined to a path without leaving it.
var part = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func validParts(parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return len(p) > 255 || !part.MatchString(p) })
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// most is how many names of what is there an error lists.
const most = 12

// absent is the error for what is not in a store.
func absent(what string, where []Folder, there []string) error {
	var labels []string
	for _, f := range where {
		labels = append(labels, f.Label)
	}
	text := "; there are no models"
	if len(there) > 0 {
		slices.Sort(there)
		rest := ""
		if n := len(there) - most; n > 0 {
			there, rest = there[:most], fmt.Sprintf(" and %d more", n)
		}
		text = "; there are " + strings.Join(there, ", ") + rest
	}
	return shared.Errorf(shared.KindModelFile, "%s in %s%s", what, strings.Join(labels, " or "), text)
}

// plain drops the path from an error of the system.
func plain(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// regular gives the file behind a path, links followed.
func regular(path string) (string, fs.FileInfo, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(real)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	return real, info, err
}

// globQuote keeps a folder's own characters from meaning something to Glob.
func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// read reads a small regular file.
func read(path string, limit int64) ([]byte, error) {
	f, size, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if size > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
