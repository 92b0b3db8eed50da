package modelstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// Remote is a file of a repository at Hugging Face.
type Remote struct {
	Repository string // ORG/REPO
	Revision   string // a branch, a tag or a commit
	File       string // its path in the repository
}

// defaultRevision is the branch that is meant without one.
const defaultRevision = "main"

// ParseRemote reads hf:ORG/REPO/FILE or hf:ORG/REPO@REVISION/FILE.
func ParseRemote(name string) (Remote, error) {
	wrong := shared.Errorf(shared.KindInvalid, "a name at Hugging Face is hf:ORG/REPO/FILE.gguf or hf:ORG/REPO@REVISION/FILE.gguf")
	parts := strings.Split(strings.TrimPrefix(name, PrefixHuggingFace), "/")
	if len(parts) < 3 {
		return Remote{}, wrong
	}
	repo, revision, given := strings.Cut(parts[1], "@")
	if !given {
		revision = defaultRevision
	}
	if !validParts(parts[0], repo, revision) || !validParts(parts[2:]...) {
		return Remote{}, wrong
	}
	return Remote{Repository: parts[0] + "/" + repo, Revision: revision, File: strings.Join(parts[2:], "/")}, nil
}

// partOfMany is the name of a part of a model in several files. The others are
// found by their names, which blobs have lost.
var partOfMany = regexp.MustCompile(`-[0-9]{5}-of-[0-9]{5}\.gguf$`)

func (s Stores) huggingFace(name string) (Model, error) {
	r, err := ParseRemote(name)
	if err != nil {
		return Model{}, err
	}
	where := []Folder{s.HuggingFace}
	if s.HuggingFace.Path == "" {
		return Model{}, shared.Errorf(shared.KindModelFile, "there is no folder for Hugging Face's store: set HF_HOME")
	}
	repo := filepath.Join(s.HuggingFace.Path, "models--"+strings.ReplaceAll(r.Repository, "/", "--"))
	snapshot, err := r.snapshot(repo)
	if errors.Is(err, fs.ErrNotExist) {
		return Model{}, absent("there is no such repository or revision", where, s.huggingFaceNames())
	}
	if err != nil {
		return Model{}, shared.Errorf(shared.KindModelFile, "cannot use the repository in %s: %w", s.HuggingFace.Label, plain(err))
	}
	linked := filepath.Join(snapshot, filepath.FromSlash(r.File))
	path, _, err := regular(linked)
	if errors.Is(err, fs.ErrNotExist) {
		return Model{}, absent("there is no such file", where, s.huggingFaceNames())
	}
	if err != nil {
		return Model{}, shared.Errorf(shared.KindModelFile, "cannot use the file in %s: %w", s.HuggingFace.Label, plain(err))
	}
	m := Model{Path: path, Name: strings.TrimSuffix(filepath.Base(r.File), filepath.Ext(r.File))}
	switch blob := filepath.Base(path); {
	case partOfMany.MatchString(r.File):
		m.Path = linked
	case filepath.Base(filepath.Dir(path)) == "blobs" && hexDigest.MatchString(blob):
		m.SHA256 = blob
	}
	return m, nil
}

// snapshot is the folder of a revision: of the commit that a reference names, or
// of a commit itself.
func (r Remote) snapshot(repo string) (string, error) {
	commit := r.Revision
	ref, err := read(filepath.Join(repo, "refs", r.Revision), maxRef)
	switch {
	case err == nil:
		commit = strings.TrimSpace(string(ref))
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if !validParts(commit) {
		return "", errors.New("the reference is no commit")
	}
	dir := filepath.Join(repo, "snapshots", commit)
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return dir, nil
}

// maxRef bounds a reference, which is a line with a commit.
const maxRef = 4096

// huggingFaceNames lists the model files of the store under the main branch, and
// those of other commits under these.
func (s Stores) huggingFaceNames() []string {
	var names []string
	repos, err := filepath.Glob(filepath.Join(globQuote(s.HuggingFace.Path), "models--*--*"))
	if err != nil {
		return nil // of the pattern, which is a constant
	}
	for _, repo := range repos {
		org, name, _ := strings.Cut(strings.TrimPrefix(filepath.Base(repo), "models--"), "--")
		head, _ := read(filepath.Join(repo, "refs", defaultRevision), maxRef) // without one, every commit is named
		snapshots := filepath.Join(repo, "snapshots")
		_ = filepath.WalkDir(snapshots, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".gguf" {
				return nil // what cannot be read is not listed
			}
			rel, err := filepath.Rel(snapshots, path)
			if err != nil {
				return nil
			}
			commit, file, _ := strings.Cut(filepath.ToSlash(rel), "/")
			at := "@" + commit
			if commit == strings.TrimSpace(string(head)) {
				at = ""
			}
			// What nobody can ask for is of no help, and may hold any character.
			full := PrefixHuggingFace + org + "/" + name + at + "/" + file
			if _, err := ParseRemote(full); err == nil {
				names = append(names, full)
			}
			return nil
		})
	}
	return slices.Compact(names)
}
