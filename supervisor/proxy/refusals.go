package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// refusals gives what net/http refuses by itself, before any handler sees it, the
// form that all other errors have.
type refusals struct{ net.Listener }

func (l refusals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return refusalConn{conn}, nil
}

type refusalConn struct{ net.Conn }

func (c refusalConn) Write(b []byte) (int, error) {
	answer, ok := asRefusal(b)
	if !ok {
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

// bareHeaders follow the status line of net/http's own refusals, and of nothing
// that a handler writes: those have a date.
const bareHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// asRefusal translates one of net/http's own refusals, which it writes at once.
func asRefusal(b []byte) ([]byte, bool) {
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
	body, err := json.Marshal(errorBody{Error: errorObject{
		Message: "the request cannot be read: " + string(message), Type: "invalid_request_error", Code: code,
	}})
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		protocol, status, http.StatusText(status), len(body), body), true
}
