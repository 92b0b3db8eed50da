package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// refusals gives what net/http refuses by itself, before any handler sees it, the
// form that all other errors have.
type refusals struct{ net.Listener }

func (l refusals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return refusalConn{conn, &requestHead{}}, nil
}

type refusalConn struct {
	net.Conn
	head *requestHead
}

func (c refusalConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.head.add(b[:n])
	return n, err
}

func (c refusalConn) Write(b []byte) (int, error) {
	answer, ok := asRefusal(b, c.head.path())
	if !ok {
		c.head.reset()
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(answer); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite lets net/http end its side first, so that the refusal is read before
// the connection is reset.
func (c refusalConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// requestHead is the first of what came since the last answer: the beginning of
// the request that is refused. While a handler writes, net/http reads on.
type requestHead struct {
	mu    sync.Mutex
	bytes [64]byte // enough for all paths by which forms differ
	n     int
}

func (h *requestHead) add(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n += copy(h.bytes[h.n:], b)
}

func (h *requestHead) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n = 0
}

// path is that of the request, or its beginning when it is long, or empty.
func (h *requestHead) path() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, target, _ := bytes.Cut(h.bytes[:h.n], []byte(" "))
	if end := bytes.IndexAny(target, " ?\r\n"); end >= 0 {
		target = target[:end]
	}
	return string(target)
}

// bareHeaders follow the status line of net/http's own refusals, and of nothing
// that a handler writes: those have a date.
const bareHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// asRefusal translates one of net/http's own refusals, which it writes at once.
// The path is that of the request and chooses the form.
func asRefusal(b []byte, path string) ([]byte, bool) {
	const protocol = "HTTP/1.1 "
	line, message, ok := bytes.Cut(b, []byte(bareHeaders))
	if !ok || !bytes.HasPrefix(line, []byte(protocol)) || bytes.Contains(line, []byte("\r")) || len(line) < len(protocol)+3 {
		return nil, false
	}
	status, err := strconv.Atoi(string(line[len(protocol) : len(protocol)+3]))
	if err != nil || status < 400 {
		return nil, false
	}
	code := "malformed_request"
	switch {
	case status == http.StatusRequestHeaderFieldsTooLarge:
		code = "headers_too_large"
	case status >= 500:
		status = http.StatusBadRequest // an encoding that nobody has to know is the client's mistake
	}
	body, err := json.Marshal(refusalBody(status, path, errorObject{
		Message: "the request cannot be read: " + string(message), Type: "invalid_request_error", Code: code,
	}))
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		protocol, status, http.StatusText(status), len(body), body), true
}

func refusalBody(status int, path string, e errorObject) any {
	switch {
	case forOllama(path):
		return ollamaError{e.Message}
	case forAnthropic(path):
		return toAnthropicError(status, e, "req_"+newID())
	}
	return errorBody{Error: e}
}
