package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

func FuzzAsRefusal(f *testing.F) {
	f.Add([]byte("HTTP/1.1 431 Request Header Fields Too Large" + bareHeaders + "431 Request Header Fields Too Large"))
	f.Add([]byte("HTTP/1.1 501 Not Implemented" + bareHeaders + "Unsupported transfer encoding"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nfine"))
	f.Add([]byte("data: {}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		answer, ok := asRefusal(b)
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
