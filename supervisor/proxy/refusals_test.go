package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRefusalsOfOtherAPIs sends each API what net/http refuses by itself, on a
// connection of its own and behind a request that was answered.
func TestRefusalsOfOtherAPIs(t *testing.T) {
	addr := listening(t)
	const wrong = " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n"
	anthropic := func(r reply) string {
		b := as[anthropicErrorBody](t, r)
		if b.Type != "error" || b.RequestID == "" || b.Error.Type != "invalid_request_error" {
			t.Errorf("%+v", b)
		}
		return b.Error.Message
	}
	openai := func(r reply) string { return as[errorBody](t, r).Error.Message }
	for target, message := range map[string]func(reply) string{
		"/v1/messages": anthropic, "/v1/messages?beta=true": anthropic, "/v1/messages/count_tokens": anthropic,
		"/api/chat":      func(r reply) string { return as[ollamaError](t, r).Error },
		"/v1/messageses": openai, "/api/events": openai, "/v1/responses": openai, "/" + strings.Repeat("a", 100): openai,
	} {
		raw := "POST " + target + wrong
		if r := send(t, addr, strings.NewReader(raw)); r.status != 400 || !strings.Contains(message(r), "cannot be read") {
			t.Errorf("%s: %d %s", target, r.status, r.body)
		}
		if r := second(t, addr, raw); r.status != 400 || !strings.Contains(message(r), "cannot be read") {
			t.Errorf("%s behind another request: %d %s", target, r.status, r.body)
		}
	}
}

// second sends a good request with a body and then another on the same connection,
// and gives the answer to that one.
func second(t *testing.T, addr, raw string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	good := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(askStory), askStory)
	var r reply
	for _, text := range []string{good, raw} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		r = reply{resp.StatusCode, resp.Header, string(body)}
	}
	return r
}

func FuzzAsRefusal(f *testing.F) {
	f.Add([]byte("HTTP/1.1 431 Request Header Fields Too Large" + bareHeaders + "431 Request Header Fields Too Large"))
	f.Add([]byte("HTTP/1.1 501 Not Implemented" + bareHeaders + "Unsupported transfer encoding"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nfine"))
	f.Add([]byte("data: {}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		answer, ok := asRefusal(b, "/v1/models")
		if !ok {
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
		if err != nil {
			t.Fatalf("%q: %v", answer, err)
		}
		defer resp.Body.Close()
		var body errorBody
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode < 400 || resp.StatusCode > 499 || body.Error.Code == "" {
			t.Errorf("%q: %d, %+v, %v", answer, resp.StatusCode, body, err)
		}
	})
}
