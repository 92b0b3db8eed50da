package modelfetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firstframe/firstframe/shared"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a server with one file.
type site struct {
	*httptest.Server
	file   []byte
	etag   string
	cut    atomic.Int64 // answers that end after as many bytes
	after  int
	before func(w http.ResponseWriter, r *http.Request) bool // may answer itself

	mu    sync.Mutex
	asked []string // ranges, in order
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{file: append([]byte("GGUF"), bytes.Repeat([]byte("weights "), 100_000)...), etag: `"v1"`, after: 300_000}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Get("Range"))
	s.mu.Unlock()
	if s.before != nil && s.before(w, r) {
		return
	}
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	if s.cut.Add(-1) >= 0 {
		w = &cutWriter{w, s.after}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.file))
}

// cutWriter breaks the connection after so many bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// ranges gives what was asked for since the last call.
func (s *site) ranges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *site) digest() string {
	sum := sha256.Sum256(s.file)
	return hex.EncodeToString(sum[:])
}

// config fetches the file into a new folder, without waiting between tries.
func (s *site) config(t *testing.T) Config {
	t.Helper()
	return Config{URL: s.URL + "/m.gguf", Out: filepath.Join(t.TempDir(), "models", "m.gguf"), Wait: time.Nanosecond, Tries: 3}
}

// left lists what lies in the folder of a file.
func left(t *testing.T, out string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// whole wants the file under its name, right and alone.
func (s *site) whole(t *testing.T, cfg Config, res Result, err error) {
	t.Helper()
	got, readErr := os.ReadFile(cfg.Out)
	if err != nil || readErr != nil || !bytes.Equal(got, s.file) || res.SHA256 != s.digest() || res.Bytes != int64(len(s.file)) || res.Path != cfg.Out {
		t.Fatalf("%+v, %v, %v: %d bytes", res, err, readErr, len(got))
	}
	if names := left(t, cfg.Out); !slices.Equal(names, []string{"m.gguf"}) {
		t.Errorf("left behind: %v", names)
	}
}

// failed wants an error and nothing under the file's name.
func failed(t *testing.T, cfg Config, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || shared.KindOf(err) == shared.KindOther {
		t.Errorf("%v; want %q", err, text)
	}
	if _, err := os.Lstat(cfg.Out); err == nil {
		t.Error("a file is there under its final name")
	}
}

func TestFetches(t *testing.T) {
	s := newSite(t)
	cfg := s.config(t)
	cfg.SHA256 = "sha256:" + strings.ToUpper(s.digest())
	stages := map[string]int64{}
	cfg.Progress = func(p Progress) { stages[p.Stage] = p.Done }
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
	if n := int64(len(s.file)); stages[stageFetching] != n || stages[stageChecking] != n || res.Resumed != 0 || res.Reused {
		t.Errorf("%v %+v", stages, res)
	}
	again, err := Fetch(t.Context(), cfg)
	if err != nil || !again.Reused || again.SHA256 != s.digest() || len(s.ranges()) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	cfg.SHA256 = ""
	if _, err := Fetch(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	cfg.SHA256 = strings.Repeat("0", 64)
	if _, err := Fetch(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "is another file") {
		t.Error(err)
	}
}

func TestCutConnectionsAreTakenUpAgain(t *testing.T) {
	s := newSite(t)
	s.cut.Store(2)
	cfg := s.config(t)
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
	asked := s.ranges()
	if want := []string{"", "bytes=300000-", "bytes=600000-"}; !slices.Equal(asked, want) || res.Resumed != 0 {
		t.Errorf("asked for %q; %+v", asked, res)
	}
}

// Whoever waits is told for what: each time that the server refuses for now, cuts
// the answer off, or does not answer.
func TestRetriesAreTold(t *testing.T) {
	s := newSite(t)
	s.cut.Store(1)
	asked := 0
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch asked++; asked {
		case 1: // on a connection that served before, the transport would try again by itself
			panic(http.ErrAbortHandler)
		case 2:
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	cfg := s.config(t)
	var told []string
	cfg.Retry = func(cause error, wait time.Duration) { told = append(told, fmt.Sprintf("%v; %v", cause, wait)) }
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
	want := []string{"EOF; 1ns", "the server answers 503 Service Unavailable; 2ns", "the connection ended after 300000 of 800004 bytes: unexpected EOF; 1ns"}
	if len(told) != len(want) {
		t.Fatalf("told %q", told)
	}
	for i, text := range told {
		if !strings.HasSuffix(text, want[i]) {
			t.Errorf("told %q; want %q", text, want[i])
		}
	}
}

// stopped ends a fetch after a part of the file.
func (s *site) stopped(t *testing.T, cfg Config) {
	t.Helper()
	s.cut.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Progress = func(p Progress) {
		if p.Done == int64(s.after) {
			cancel()
		}
	}
	_, err := Fetch(ctx, cfg)
	failed(t, cfg, err, "goes on from there")
	if names := left(t, cfg.Out); len(names) != 2 {
		t.Errorf("left: %v", names)
	}
	s.ranges()
}

func TestLaterFetchGoesOn(t *testing.T) {
	s := newSite(t)
	cfg := s.config(t)
	s.stopped(t, cfg)
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
	asked := s.ranges()
	if want := []string{"bytes=300000-"}; !slices.Equal(asked, want) || res.Resumed != 300_000 {
		t.Errorf("asked for %q; %+v", asked, res)
	}
}

func TestFileThatChangedIsFetchedAnew(t *testing.T) {
	for name, change := range map[string]func(*site, *Config){
		"other bytes": func(s *site, _ *Config) {
			s.file, s.etag = append([]byte("GGUF"), bytes.Repeat([]byte("changed "), 100_000)...), `"v2"`
		},
		"other address": func(s *site, cfg *Config) { cfg.URL = s.URL + "/other.gguf" },
		"no validator":  func(s *site, _ *Config) { s.etag = "" },
		"a weak one":    func(s *site, _ *Config) { s.etag = `W/"v1"` },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			cfg := s.config(t)
			unsure := name == "no validator" || name == "a weak one"
			if unsure {
				change(s, &cfg)
			}
			s.stopped(t, cfg)
			if !unsure {
				change(s, &cfg)
			}
			res, err := Fetch(t.Context(), cfg)
			s.whole(t, cfg, res, err)
			if res.Resumed != 0 {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestWrongPartsAreNotGluedTogether has a server that ignores what it is asked.
func TestWrongPartsAreNotGluedTogether(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"another start": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 5-9/800004")
			w.WriteHeader(http.StatusPartialContent)
		},
		"another length": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 300000-300004/300005")
			w.WriteHeader(http.StatusPartialContent)
		},
		"no range": func(w http.ResponseWriter) { w.WriteHeader(http.StatusPartialContent) },
		"nothing":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			cfg := s.config(t)
			s.stopped(t, cfg)
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") == "" {
					return false
				}
				answer(w)
				return true
			}
			res, err := Fetch(t.Context(), cfg)
			s.whole(t, cfg, res, err)
		})
	}
}

func TestSilentServerIsAskedAgain(t *testing.T) {
	s := newSite(t)
	silent := true
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !silent {
			return false
		}
		silent = false
		w.Header().Set("Content-Length", fmt.Sprint(len(s.file)))
		w.Header().Set("ETag", s.etag)
		_, _ = w.Write(s.file[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the client gives up
		return true
	}
	cfg := s.config(t)
	// Long enough for a busy machine: the second answer must not be cut off as well.
	cfg.Idle = time.Second
	res, err := Fetch(t.Context(), cfg)
	s.whole(t, cfg, res, err)
}

func TestOneFetchAtATime(t *testing.T) {
	s := newSite(t)
	cfg := s.config(t)
	p, err := openPart(cfg.Out)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Fetch(t.Context(), cfg)
	failed(t, cfg, err, "by another process")
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	// A file that came meanwhile stays.
	s.before = func(http.ResponseWriter, *http.Request) bool {
		if err := os.WriteFile(cfg.Out, []byte("mine"), 0o600); err != nil {
			t.Error(err)
		}
		return false
	}
	_, err = Fetch(t.Context(), cfg)
	if text, _ := os.ReadFile(cfg.Out); err == nil || string(text) != "mine" {
		t.Errorf("%v, %q", err, text)
	}
}

func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 5-9/10", "bytes */10", "bytes 5-9/*", "bytes -/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if start, total, ok := contentRange(v); ok && (start < 0 || start >= total) {
			t.Errorf("%q: %d of %d", v, start, total)
		}
	})
}
