package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// web is a configuration with an HTTP frontend on a free port.
func web(t testing.TB, more string) string {
	return fmt.Sprintf(`
frontend "http" {
  listen = "127.0.0.1:0"
  %s
}
model "f16" {
  name = "storyteller"
  path = %q
}
slot "f16" {
  model   = model.f16
  threads = 1
  queue   = 512
  context {
    tokens   = 256
    parallel = 8
  }
}
`, more, model(t, "storyteller-f16.gguf"))
}

// url is where the frontend of this server answers.
func (s *server) url() string {
	s.t.Helper()
	m := httpAt.FindStringSubmatch(s.out.String())
	if m == nil {
		s.t.Fatal("serve does not say where HTTP is")
	}
	return m[1]
}

// child is the pid of the n-th proxy that this server has started, once there is one.
func (s *server) child(n int) int {
	s.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		if all := httpStart.FindAllStringSubmatch(s.out.String(), -1); len(all) >= n {
			pid, err := strconv.Atoi(all[n-1][1])
			if err != nil {
				s.t.Fatal(err)
			}
			return pid
		}
		select {
		case <-s.out.new:
		case <-timeout.C:
			s.t.Fatalf("there is no proxy number %d", n)
		}
	}
}

// browser is an HTTP client that keeps no connections.
func browser() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
}

func get(t testing.TB, url string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := browser().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// open starts a stream of n tokens.
func open(ctx context.Context, url, prompt string, n int) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"storyteller","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, n, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return browser().Do(req)
}

// wholeStream reads a stream and wants one terminal frame and n tokens.
func wholeStream(resp *http.Response, n int) error {
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	text := string(all)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Status, text)
	case strings.Count(text, "data: [DONE]\n\n") != 1 || !strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"error"`):
		return fmt.Errorf("no single end: %s", text)
	case !strings.Contains(text, fmt.Sprintf(`"predicted_n":%d,`, n)):
		return fmt.Errorf("not %d tokens: %s", n, text)
	}
	return nil
}

// gauge reads one series without labels.
func gauge(t testing.TB, url, name string) int {
	t.Helper()
	_, text := get(t, url+"/metrics")
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no series %s", name)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(v)
}
