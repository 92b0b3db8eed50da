package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firstframe/firstframe/internal/modelfetch"
	"github.com/firstframe/firstframe/shared/gguf"
)

// modelSite serves a model file at the address that a name at Hugging Face means.
func modelSite(t *testing.T) (file []byte, url string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	var busy atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/org/repo/resolve/main/sub/m.gguf" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"v1"`)
		if r.URL.Query().Has("later") && busy.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(srv.Close)
	return file, srv.URL
}

func TestPull(t *testing.T) {
	file, url := modelSite(t)
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	t.Setenv("HF_ENDPOINT", url)
	t.Setenv("HF_TOKEN", "")
	run := func(args ...string) ran {
		var stdout, stderr bytes.Buffer
		a := &app{out: &stdout, errOut: &stderr}
		return ran{a.run(t.Context(), append([]string{"pull"}, args...)), stdout.String(), stderr.String()}
	}
	const digest = "89b019474aa81e5c299e0ed32d19d49460c3bf19d8aca446fadf19b8f4c730c8"
	r := run("--json", "--sha256", digest, "hf:org/repo/sub/m.gguf")
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	golden(t, "pull.json", strings.ReplaceAll(r.stdout, data, "/data"))
	path := filepath.Join(data, "firstframe", "models", "org", "repo", "sub", "m.gguf")
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, file) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := gguf.ReadFile(path); err != nil {
		t.Error(err)
	}
	address := url + "/org/repo/resolve/main/sub/m.gguf?download=true"
	if r := run(address); r.code != exitOK || r.stdout != filepath.Join(data, "firstframe", "models", "m.gguf")+"\n" || !strings.Contains(r.stderr, digest) {
		t.Errorf("by its address: %+v", r)
	}
	if r := run("--out", filepath.Join(data, "later.gguf"), address+"&later"); r.code != exitOK || strings.Count(r.stderr, "the server answers 503 Service Unavailable; next try in 0s\n") != 1 {
		t.Errorf("from a server that is busy: %+v", r)
	}
	out := filepath.Join(data, "wrong.gguf")
	for _, bad := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--out", out, "--sha256", strings.Repeat("0", 64), address}, exitFailed, digest},
		{[]string{"--out", out, url + "/none.gguf"}, exitFailed, "no such file"},
		{[]string{"--out", out, "http://example.com/m.gguf"}, exitUsage, "--allow-http"},
		{[]string{"m.gguf"}, exitUsage, "https://HOST/FILE.gguf"},
		{[]string{"hf:org/repo"}, exitUsage, "hf:ORG/REPO/FILE.gguf"},
		{[]string{url}, exitUsage, "--out"},
		{[]string{address}, exitUsage, "is there already"},
	} {
		if r := run(bad.args...); r.code != bad.code || !strings.Contains(r.stderr, bad.text) || r.stdout != "" {
			t.Errorf("%v: %+v", bad.args, r)
		}
	}
	if _, err := os.Lstat(out); err == nil {
		t.Error("a file that is not what was asked for is there")
	}
}

// TestPullNamesNoOddFile has addresses whose last part would be a file that looks
// like something else where its path is printed.
func TestPullNamesNoOddFile(t *testing.T) {
	for _, last := range []string{"", "%2e%2e", ".hidden", "a%00b", "a%0ab", "%1b%5b31mred.gguf"} {
		if place, err := source("https://example.com/"+last, &modelfetch.Config{}); err == nil {
			t.Errorf("%q became the file %q", last, place)
		}
	}
}
