package modelfetch

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestWhatCannotBeFetched(t *testing.T) {
	s := newSite(t)
	for name, tt := range map[string]struct {
		set    func(*Config)
		before func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		"wrong digest": {func(c *Config) { c.SHA256 = strings.Repeat("0", 64) }, nil, "its sha256 is " + s.digest()},
		"not found":    {nil, status(404), "no such file"},
		"forbidden":    {func(c *Config) { c.HuggingFace = true }, status(403), "HF_TOKEN"},
		"always 503":   {nil, status(503), "503"},
		"no length": {nil, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("GGUF"))
			_ = http.NewResponseController(w).Flush()
			return true
		}, "how long the file is"},
		"a page": {nil, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>log in</html>"))
			return true
		}, "no GGUF file"},
		"http elsewhere":  {func(c *Config) { c.URL = "http://example.com/m.gguf" }, nil, "--allow-http"},
		"another scheme":  {func(c *Config) { c.URL = "file:///etc/passwd" }, nil, "no host"},
		"ftp":             {func(c *Config) { c.URL = "ftp://example.com/m.gguf" }, nil, "https"},
		"half a digest":   {func(c *Config) { c.SHA256 = "00" }, nil, "64 hexadecimal"},
		"led to http":     {nil, redirect("http://192.0.2.1/m.gguf"), "plain http"},
		"led to a file":   {nil, redirect("file:///etc/passwd"), "redirects"},
		"led in a circle": {nil, redirect("/m.gguf"), "more than 10 times"},
		"cut for ever": {nil, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "0 bytes are there"},
		"another digest by the server": {func(c *Config) { c.HuggingFace, c.SHA256 = true, s.digest() }, linked(strings.Repeat("1", 64)), "by the server"},
		"a digest that is not kept":    {func(c *Config) { c.HuggingFace = true }, linked(strings.Repeat("1", 64)), "the sha256 that the server names"},
	} {
		t.Run(name, func(t *testing.T) {
			s.before = tt.before
			cfg := s.config(t)
			if tt.set != nil {
				tt.set(&cfg)
			}
			_, err := Fetch(t.Context(), cfg)
			failed(t, cfg, err, tt.want)
			if names := left(t, cfg.Out); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
}

func redirect(to string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, to, http.StatusFound)
		return true
	}
}

// linked names a digest, as Hugging Face's servers do where they redirect.
func linked(digest string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/elsewhere" {
			return false
		}
		w.Header().Set("X-Linked-Etag", fmt.Sprintf("%q", digest))
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
		return true
	}
}

func TestRedirectsAndTokens(t *testing.T) {
	s, other := newSite(t), newSite(t)
	other.file = s.file
	var tokens []string
	note := func(r *http.Request) { tokens = append(tokens, r.Header.Get("Authorization")) }
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		note(r)
		w.Header().Set("X-Linked-Etag", `"`+s.digest()+`"`)
		// Another name of this machine is another host.
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
		return true
	}
	other.before = func(_ http.ResponseWriter, r *http.Request) bool { note(r); return false }
	other.cut.Store(1)
	cfg := s.config(t)
	cfg.HuggingFace, cfg.Token = true, "secret"
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
	if want := []string{"Bearer secret", "", "Bearer secret", ""}; !slices.Equal(tokens, want) {
		t.Errorf("tokens went %q", tokens)
	}
}
