package modelstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/firstframe/firstframe/shared"
)

// What a name without them means to Ollama.
const (
	defaultHost      = "registry.ollama.ai"
	defaultNamespace = "library"
	defaultTag       = "latest"
)

// ollamaName is where a manifest lies below the folder of manifests.
type ollamaName struct{ host, namespace, model, tag string }

func parseOllama(name string) (ollamaName, error) {
	n := ollamaName{host: defaultHost, namespace: defaultNamespace, tag: defaultTag}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, n.tag = name[:i], name[i+1:]
	}
	switch parts := strings.Split(name, "/"); len(parts) {
	case 1:
		n.model = parts[0]
	case 2:
		n.namespace, n.model = parts[0], parts[1]
	case 3:
		n.host, n.namespace, n.model = parts[0], parts[1], parts[2]
	}
	if host := strings.ReplaceAll(n.host, ":", "_"); !validParts(host, n.namespace, n.model, n.tag) {
		return n, shared.Errorf(shared.KindInvalid, "a name in Ollama's store is ollama:MODEL, ollama:MODEL:TAG or ollama:HOST/NAMESPACE/MODEL:TAG")
	}
	return n, nil
}

// String is the name as short as people write it.
func (n ollamaName) String() string {
	text := n.model + ":" + n.tag
	if n.host != defaultHost {
		return n.host + "/" + n.namespace + "/" + text
	}
	if n.namespace != defaultNamespace {
		return n.namespace + "/" + text
	}
	return text
}

func (s Stores) ollama(name string) (Model, error) {
	n, err := parseOllama(name)
	if err != nil {
		return Model{}, err
	}
	for _, folder := range s.Ollama {
		path := filepath.Join(folder.Path, "manifests", n.host, n.namespace, n.model, n.tag)
		manifest, err := readManifest(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Model{}, shared.Errorf(shared.KindModelFile, "cannot use the manifest in %s: %w", folder.Label, plain(err))
		}
		m, err := manifest.file(folder)
		m.Name = n.String()
		return m, err
	}
	return Model{}, absent("there is no such model", s.Ollama, s.ollamaNames())
}

// maxManifest bounds a manifest, which has a few hundred bytes.
const maxManifest = 1 << 20

func readManifest(path string) (manifest, error) {
	text, err := read(path, maxManifest)
	if err != nil {
		return manifest{}, err
	}
	return parseManifest(text)
}

// manifest is what counts of one: where the weights are.
type manifest struct {
	digest string // hex
	size   int64
}

// Media types of layers that decide what a model computes.
const (
	layerModel   = "application/vnd.ollama.image.model"
	layerAdapter = "application/vnd.ollama.image.adapter"
)

// parseManifest takes a manifest with exactly one file of weights.
func parseManifest(text []byte) (manifest, error) {
	var doc struct {
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
			Size      int64  `json:"size"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return manifest{}, fmt.Errorf("it is not JSON of a manifest: %w", err)
	}
	var m manifest
	for _, l := range doc.Layers {
		switch l.MediaType {
		case layerAdapter:
			return manifest{}, errors.New("the model has an adapter, and without it would be another model")
		case layerModel:
		default:
			continue
		}
		digest, ok := strings.CutPrefix(l.Digest, "sha256:")
		switch {
		case m.digest != "":
			return manifest{}, errors.New("the model has several files of weights")
		case !ok || !hexDigest.MatchString(digest) || l.Size <= 0:
			return manifest{}, errors.New("the layer of the model has no usable digest and size")
		}
		m = manifest{digest, l.Size}
	}
	if m.digest == "" {
		return manifest{}, errors.New("it has no layer with weights, as of a model that runs elsewhere")
	}
	return m, nil
}

// file is the blob that a manifest means.
func (m manifest) file(folder Folder) (Model, error) {
	path, info, err := regular(filepath.Join(folder.Path, "blobs", "sha256-"+m.digest))
	if err != nil {
		return Model{}, shared.Errorf(shared.KindModelFile, "the weights of the model are missing in %s: %w", folder.Label, plain(err))
	}
	if info.Size() != m.size {
		return Model{}, shared.Errorf(shared.KindModelFile, "the weights of the model in %s have %d bytes, and %d by the manifest: pull the model again", folder.Label, info.Size(), m.size)
	}
	return Model{Path: path, SHA256: m.digest}, nil
}

// ollamaNames lists what the stores have.
func (s Stores) ollamaNames() []string {
	var names []string
	for _, folder := range s.Ollama {
		root := filepath.Join(folder.Path, "manifests")
		found, err := filepath.Glob(filepath.Join(globQuote(root), "*", "*", "*", "*"))
		if err != nil {
			continue // of the pattern, which is a constant
		}
		for _, path := range found {
			rel, err := filepath.Rel(root, path)
			parts := strings.Split(filepath.ToSlash(rel), "/")
			if err != nil || len(parts) != 4 {
				continue
			}
			// What nobody can ask for is of no help, and may hold any character.
			name := ollamaName{parts[0], parts[1], parts[2], parts[3]}.String()
			if _, err := parseOllama(name); err == nil {
				names = append(names, PrefixOllama+name)
			}
		}
	}
	return names
}
