package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// listening is a server on a real socket with its own timeouts and limits.
func listening(t *testing.T) (addr string) {
	t.Helper()
	s, err := New(Config{HTTPSpec: shared.HTTPSpec{Listen: "127.0.0.1:0"}}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// send writes raw bytes, as far as they are taken, and reads one answer, as far
// as the server lets it.
func send(t *testing.T, addr string, body io.Reader) reply {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.Copy(conn, body) }() // the server may hang up on it
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body) // a server that hangs up has said its status
	return reply{resp.StatusCode, resp.Header, string(answer)}
}

const head = "Host: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"

func TestHostileHTTP(t *testing.T) {
	addr := listening(t)
	post := func(path, body string) string {
		return "POST " + path + " HTTP/1.1\r\n" + head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\n" + head + "\r\n" }
	for name, test := range map[string]struct {
		raw    string
		status int
	}{
		"duplicate keys":         {post("/v1/chat/completions", `{"model":"a","model":"b"}`), 400},
		"duplicate keys, deeper": {post("/v1/chat/completions", `{"messages":[{"role":"user","role":"system"}]}`), 400},
		"invalid UTF-8":          {post("/v1/completions", "{\"model\":\"\xc3\x28\",\"prompt\":\"x\"}"), 400},
		"half a surrogate":       {post("/v1/completions", `{"model":"\ud800","prompt":"x"}`), 400},
		"a huge number":          {post("/v1/completions", `{"model":"a","prompt":"x","max_tokens":1e999}`), 400},
		"not a number":           {post("/v1/completions", `{"model":"a","prompt":"x","temperature":NaN}`), 400},
		"token ids that are not": {post("/v1/completions", `{"model":"a","prompt":[1,-1e40]}`), 400},
		"no body":                {post("/v1/completions", ""), 400},
		"a body that is a lie":   {"POST /v1/completions HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		"100 MB announced":       {"POST /v1/completions HTTP/1.1\r\n" + head + "Content-Length: 104857600\r\n\r\n", 413},
		"form data":              {strings.Replace(post("/v1/completions", "a=b"), "application/json", "application/x-www-form-urlencoded", 1), 415},
		"a path upwards":         {get("/v1/../api/slots/evict"), 404},
		"a path upwards, hidden": {get("/v1/%2e%2e/%2e%2e/etc/passwd"), 404},
		"backslashes":            {get(`/..\..\etc\passwd`), 404},
		"a double slash":         {get("//v1/models"), 404},
		"a slash too many":       {get("/v1/models/"), 404},
		"a zero byte":            {get("/page.js%00.html"), 404},
		"a model upwards":        {get("/v1/models/..%2f..%2fmetrics"), 404},
		"a folder of the page":   {get("/page"), 404},
		"the whole server":       {"OPTIONS * HTTP/1.1\r\n" + head + "\r\n", 404},
		"a tunnel":               {"CONNECT 10.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 403},
		"another name":           {"GET /v1/models HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n", 403},
	} {
		r := send(t, addr, strings.NewReader(test.raw))
		if e := as[errorBody](t, r).Error; r.status != test.status || e.Code == "" || e.Message == "" || e.Type == "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// What is no HTTP request at all is net/http's to refuse, in the same form.
	for name, raw := range map[string]io.Reader{
		"a header flood": io.MultiReader(strings.NewReader("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
			strings.NewReader(strings.Repeat("X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 10_000))),
		"an endless line":   strings.NewReader("GET /" + strings.Repeat("a", 1<<20)),
		"no protocol":       strings.NewReader("HELLO\r\n\r\n"),
		"two lengths":       strings.NewReader("POST / HTTP/1.1\r\n" + head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		"a split header":    strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
		"a negative length": strings.NewReader("POST / HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n"),
		"another encoding":  strings.NewReader("POST / HTTP/1.1\r\n" + head + "Transfer-Encoding: gzip\r\n\r\n"),
		"another protocol":  strings.NewReader("GET / HTTP/3.0\r\n" + head + "\r\n"),
	} {
		r := send(t, addr, raw)
		if e := as[errorBody](t, r).Error; r.status < 400 || r.status > 499 || e.Code == "" || e.Message == "" || e.Type != "invalid_request_error" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := send(t, addr, strings.NewReader(post("/v1/chat/completions", askStory))); r.status != 200 {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
}

// patient is a recorder that any deadline suits.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetWriteDeadline(time.Time) error { return nil }

// FuzzHandler sends anything anywhere. Nothing but the client is wrong here, so
// the answer is never a 5xx, and every refusal is the error object of the path's API.
func FuzzHandler(f *testing.F) {
	for _, seed := range [][4]string{
		{"POST", "/v1/chat/completions", "application/json", askStory}, {"POST", "/v1/completions", "application/json", `{"model":"story:F16","prompt":"x","stream":true}`},
		{"POST", "/v1/responses", "application/json", `{"model":"story:F16","input":[{"role":"user","content":"x"}],"stream":true}`},
		{"POST", "/api/chat", "", `{"model":"story:F16","messages":[{"role":"user","content":"x"}]}`}, {"GET", "/api/x", "", ""},
		{"POST", "/v1/messages", "application/json", askMessage}, {"POST", "/v1/messages/count_tokens", "application/json", `{"model":"story:F16","messages":[]}`},
		{"POST", "/tokenize", "application/json; charset=utf-8", `{"model":"story:F16","content":"x"}`}, {"GET", "/v1/models/story:F16", "", ""},
		{"POST", "/api/slots/evict", "application/json", `{"slot_id":"q8","drop_host":true}`}, {"GET", "/v1/../x", "", ""}, {"OPTIONS", "*", "a/b", "{}"},
	} {
		f.Add(seed[0], seed[1], seed[2], []byte(seed[3]))
	}
	s, err := New(Config{HTTPSpec: shared.HTTPSpec{Listen: "127.0.0.1:0"}}, &fake{})
	if err != nil {
		f.Fatal(err)
	}
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, method, path, contentType string, body []byte) {
		target, err := url.ParseRequestURI(path)
		if err != nil || target.Path == "/api/events" || target.Path == "/metrics" { // the one never ends, the other is large
			return
		}
		r := &http.Request{Method: method, URL: target, Host: "127.0.0.1", Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		w := httptest.NewRecorder()
		handler.ServeHTTP(patient{w}, r.WithContext(t.Context()))
		if w.Code >= 500 && w.Code != http.StatusNotImplemented { // which is said of Ollama's pull and its like
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w.Code >= 400 && forOllama(target.Path) {
			if as[ollamaError](t, reply{w.Code, w.Header(), w.Body.String()}).Error == "" {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			return
		}
		if w.Code >= 400 && as[errorBody](t, reply{w.Code, w.Header(), w.Body.String()}).Error.Code == "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzParseModel wants whatever is asked for to come back in what is looked up.
func FuzzParseModel(f *testing.F) {
	for _, seed := range []string{"story", "story:Q8_0", "story@sha256:00ff", "a:b:IQ4_XS", ":F16", "@sha256:", "story:q4_k_m"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, model string) {
		r := parseModel(model)
		again := r.Model
		if r.Precision != "" {
			again += ":" + r.Precision
		}
		if r.ModelRevision != "" {
			again += "@" + r.ModelRevision
		}
		if !strings.EqualFold(again, model) || r.Precision != "" && r.Model == "" {
			t.Fatalf("%q became %+v", model, r)
		}
	})
}
