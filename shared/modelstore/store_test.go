package modelstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func write(t *testing.T, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// pulled puts a model into a store as Ollama does.
func pulled(t *testing.T, dir, name, weights, extra string) string {
	t.Helper()
	d := digest(weights)
	write(t, fmt.Sprintf(`{"schemaVersion":2,"config":{"digest":"sha256:00","size":3},"layers":[%s{"mediaType":"application/vnd.ollama.image.model",`+
		`"digest":"sha256:%s","size":%d},{"mediaType":"application/vnd.ollama.image.params","digest":"sha256:11","size":1}]}`, extra, d, len(weights)),
		dir, "manifests", name)
	return write(t, weights, dir, "blobs", "sha256-"+d)
}

// cached puts a file into a cache as Hugging Face's tools do.
func cached(t *testing.T, dir, repo, commit, file, weights string) string {
	t.Helper()
	root := filepath.Join(dir, "models--"+strings.ReplaceAll(repo, "/", "--"))
	blob := write(t, weights, root, "blobs", digest(weights))
	link := filepath.Join(root, "snapshots", commit, file)
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(filepath.Dir(link), blob)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rel, link); err != nil {
		t.Fatal(err)
	}
	write(t, commit+"\n", root, "refs", "main")
	return blob
}

func environment(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// real is a folder by the path that it has without links.
func real(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFinds(t *testing.T) {
	dir := real(t)
	ollama, hub := filepath.Join(dir, "o[1]"), filepath.Join(dir, "hf", "hub")
	latest := pulled(t, ollama, "registry.ollama.ai/library/llama3.2/latest", "latest", "")
	small := pulled(t, ollama, "registry.ollama.ai/library/llama3.2/1b", "small", "")
	own := pulled(t, ollama, "registry.ollama.ai/me/mine/q8", "mine", "")
	other := pulled(t, ollama, "hf.co/org/Some-GGUF/Q4_K_M", "other", "")
	old := cached(t, hub, "org/repo", "aaa", "sub/model.gguf", "old")
	fresh := cached(t, hub, "org/repo", "bbb", "sub/model.gguf", "new")
	cached(t, hub, "org/repo", "bbb", "many-00001-of-00002.gguf", "part")
	plainFile := write(t, "copied", hub, "models--org--repo", "snapshots", "bbb", "copied.gguf")
	parts := filepath.Join(hub, "models--org--repo", "snapshots", "bbb", "many-00001-of-00002.gguf")
	stores := FromEnvironment(environment(map[string]string{"OLLAMA_MODELS": ollama, "HF_HOME": filepath.Join(dir, "hf")}))
	for name, want := range map[string]Model{
		"ollama:llama3.2":                   {latest, digest("latest"), "llama3.2:latest"},
		"ollama:llama3.2:latest":            {latest, digest("latest"), "llama3.2:latest"},
		"ollama:llama3.2:1b":                {small, digest("small"), "llama3.2:1b"},
		"ollama:me/mine:q8":                 {own, digest("mine"), "me/mine:q8"},
		"ollama:hf.co/org/Some-GGUF:Q4_K_M": {other, digest("other"), "hf.co/org/Some-GGUF:Q4_K_M"},
		"hf:org/repo/sub/model.gguf":        {fresh, digest("new"), "model"},
		"hf:org/repo@aaa/sub/model.gguf":    {old, digest("old"), "model"},
		"hf:org/repo@main/sub/model.gguf":   {fresh, digest("new"), "model"},
		"hf:org/repo/copied.gguf":           {plainFile, "", "copied"},
		// The other parts are found by name, which the blob has lost.
		"hf:org/repo/many-00001-of-00002.gguf": {parts, "", "many-00001-of-00002"},
	} {
		if got, err := stores.Find(name); err != nil || got != want || !Named(name) {
			t.Errorf("%s is %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestWhatCannotBeUsed(t *testing.T) {
	dir := real(t)
	pulled(t, dir, "registry.ollama.ai/library/good/latest", "good", "")
	pulled(t, dir, "registry.ollama.ai/library/adapted/latest", "a", `{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:22","size":1},`)
	pulled(t, dir, "registry.ollama.ai/library/twice/latest", "b", `{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:`+digest("good")+`","size":4},`)
	cut := pulled(t, dir, "registry.ollama.ai/library/cut/latest", "cut short", "")
	write(t, "cut", cut)
	if err := os.Remove(pulled(t, dir, "registry.ollama.ai/library/gone/latest", "gone", "")); err != nil {
		t.Fatal(err)
	}
	write(t, `{"layers":[]}`, dir, "manifests/registry.ollama.ai/library/cloud/latest")
	write(t, "no JSON", dir, "manifests/registry.ollama.ai/library/broken/latest")
	write(t, `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../etc/passwd","size":4}]}`, dir, "manifests/registry.ollama.ai/library/hostile/latest")
	hub := filepath.Join(dir, "hub")
	cached(t, hub, "org/repo", "bbb", "model.gguf", "x")
	write(t, "../../..", hub, "models--org--repo", "refs", "up")
	stores := FromEnvironment(environment(map[string]string{"OLLAMA_MODELS": dir, "HF_HUB_CACHE": hub}))
	for name, want := range map[string]string{
		"ollama:good:7b":               "there is no such model in $OLLAMA_MODELS; there are ollama:adapted:latest, ollama:broken:latest",
		"ollama:adapted":               "adapter",
		"ollama:twice":                 "several files",
		"ollama:cut":                   "have 3 bytes, and 9 by the manifest",
		"ollama:gone":                  "are missing",
		"ollama:cloud":                 "no layer with weights",
		"ollama:broken":                "not JSON",
		"ollama:hostile":               "no usable digest",
		"ollama:":                      "is ollama:MODEL",
		"ollama:../../x":               "is ollama:MODEL",
		"ollama:a/b/c/d":               "is ollama:MODEL",
		"hf:org/repo":                  "is hf:ORG/REPO/FILE.gguf",
		"hf:org/repo/../../x":          "is hf:ORG/REPO/FILE.gguf",
		"hf:org/none/model.gguf":       "there are hf:org/repo/model.gguf",
		"hf:org/repo/none.gguf":        "no such file in $HF_HUB_CACHE; there are hf:org/repo/model.gguf",
		"hf:org/repo@up/model.gguf":    "no commit",
		"hf:org/repo@other/model.gguf": "no such repository or revision",
		"models/x.gguf":                "begins with",
	} {
		_, err := stores.Find(name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) || shared.KindOf(err) == shared.KindOther {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	empty := FromEnvironment(environment(map[string]string{"OLLAMA_MODELS": filepath.Join(dir, "nothing")}))
	if _, err := empty.Find("ollama:x"); err == nil || !strings.Contains(err.Error(), "there are no models") {
		t.Error(err)
	}
	if _, err := empty.Find("hf:a/b/c.gguf"); err == nil || !strings.Contains(err.Error(), "HF_HOME") {
		t.Error(err)
	}
}

func TestWhereStoresAre(t *testing.T) {
	for _, tt := range []struct {
		env        map[string]string
		ollama, hf string
	}{
		{map[string]string{"HOME": "/h"}, "/h/.ollama/models", "/h/.cache/huggingface/hub"},
		{map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/.ollama/models", "/x/huggingface/hub"},
		{map[string]string{"HOME": "/h", "HF_HOME": "/f", "OLLAMA_MODELS": "/o"}, "/o", "/f/hub"},
		{map[string]string{"HF_HOME": "/f", "HF_HUB_CACHE": "/c"}, "/usr/share/ollama/.ollama/models", "/c"},
	} {
		s := FromEnvironment(environment(tt.env))
		if s.Ollama[0].Path != tt.ollama || s.HuggingFace.Path != tt.hf {
			t.Errorf("%v: %+v", tt.env, s)
		}
	}
}

func FuzzManifest(f *testing.F) {
	for _, seed := range []string{`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:` + digest("x") + `","size":4}]}`, `{"layers":[]}`, `[]`, "{"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		if (err == nil) != (hexDigest.MatchString(m.digest) && m.size > 0) {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"ollama:llama3.2:1b", "ollama:h:1/a/b:c", "hf:org/repo@rev/dir/file.gguf", "hf:../x/y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := parseOllama(name)
		if err == nil && strings.Contains("/"+n.host+"/"+n.namespace+"/"+n.model+"/"+n.tag+"/", "/../") {
			t.Errorf("%q leaves the store: %+v", name, n)
		}
		r, err := ParseRemote(name)
		if err == nil && (strings.Contains("/"+r.Repository+"/"+r.Revision+"/"+r.File+"/", "/../") || strings.Count(r.Repository, "/") != 1) {
			t.Errorf("%q leaves the store: %+v", name, r)
		}
	})
}

// A store may come from anybody. What nobody can ask for is not named.
func TestNamesThatTerminalsObey(t *testing.T) {
	dir := real(t)
	const hostile = "a\x1b]0;owned\x07b"
	ollama, hub := filepath.Join(dir, "o"), filepath.Join(dir, "hf", "hub")
	pulled(t, ollama, "registry.ollama.ai/library/good/latest", "good", "")
	for _, name := range []string{hostile + "/library/m/t", "h/" + hostile + "/m/t", "h/n/" + hostile + "/t", "h/n/m/" + hostile} {
		pulled(t, ollama, name, "bad", "")
	}
	cached(t, hub, "org/repo", hostile, "model.gguf", "bad")
	cached(t, hub, "org/repo", "bbb", "sub/"+hostile+".gguf", "bad")
	cached(t, hub, "org/repo", "aaa", "good.gguf", "good")
	cached(t, hub, "org/"+hostile, "ccc", "model.gguf", "bad")
	stores := FromEnvironment(environment(map[string]string{"OLLAMA_MODELS": ollama, "HF_HOME": filepath.Join(dir, "hf")}))
	for name, want := range map[string]string{"ollama:none": "; there are ollama:good:latest", "hf:org/none/x.gguf": "; there are hf:org/repo/good.gguf"} {
		_, err := stores.Find(name)
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.ContainsAny(err.Error(), "\x1b\x07") {
			t.Errorf("%s: %q", name, err)
		}
	}
}
