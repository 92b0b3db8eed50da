package hcl

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestModelsFromStores declares models by the names that Ollama and Hugging Face
// keep them under.
func TestModelsFromStores(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))
	snapshots := filepath.Join(dir, "models--org--repo", "snapshots", "abc")
	for path, text := range map[string]string{
		filepath.Join(dir, "manifests/registry.ollama.ai/library/story/1b"): `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:` + digest + `","size":7}]}`,
		filepath.Join(dir, "blobs", "sha256-"+digest):                       "weights",
		filepath.Join(dir, "models--org--repo", "blobs", digest):            "weights",
		filepath.Join(dir, "models--org--repo", "refs", "main"):             "abc",
		filepath.Join(snapshots, "README.md"):                               "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../blobs/"+digest, filepath.Join(snapshots, "story.gguf")); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OLLAMA_MODELS": dir, "HF_HUB_CACHE": dir}
	declare := func(model string) string { return "model \"m\" {\n" + model + "\n}\nslot \"s\" { model = model.m }\n" }
	for path, file := range map[string]string{
		"ollama:story:1b":        filepath.Join(dir, "blobs", "sha256-"+digest),
		"hf:org/repo/story.gguf": filepath.Join(dir, "models--org--repo", "blobs", digest),
	} {
		cfg, out := parseText(declare(fmt.Sprintf("path = %q", path)), env)
		if cfg == nil || cfg.Slots[0].ModelPath != file || cfg.Slots[0].DeclaredSHA256 != digest {
			t.Errorf("%s: %+v\n%s", path, cfg, out)
		}
		cfg, out = parseText(declare(fmt.Sprintf("path = %q\n  sha256 = %q", path, strings.Repeat("0", 64))), env)
		if cfg != nil || !strings.Contains(out, "test.hcl:3") || !strings.Contains(out, digest) {
			t.Errorf("%s with another digest: %+v\n%s", path, cfg, out)
		}
	}
	cfg, out := parseText(declare(`path = "ollama:story"`), env)
	if cfg != nil || !strings.Contains(out, "test.hcl:2") || !strings.Contains(out, "There is no such model in $OLLAMA_MODELS; there are ollama:story:1b.") || strings.Contains(out, dir) {
		t.Errorf("%+v\n%s", cfg, out)
	}
	// A file may be called so, too.
	if cfg, out := parseText(declare(`path = "./ollama:story"`), env); cfg == nil || cfg.Slots[0].ModelPath != filepath.Join("base", "ollama:story") {
		t.Errorf("%+v\n%s", cfg, out)
	}
}
