package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// pipes is a listener whose connections buffer nothing and whose deadlines
// follow the bubble's clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	server, client := net.Pipe()
	p.conns <- server
	return client, nil
}

// inBubble runs a proxy on pipes and the fake clock.
func inBubble(t *testing.T, f *fake, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{HTTPSpec: shared.HTTPSpec{Listen: "127.0.0.1:0"}}, f)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := newPipes()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, p) }()
		test(t, p)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func post(path, body string) *http.Request {
	req, err := http.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		panic(err) // the arguments are constants
	}
	return req
}

func TestSlowReaderLosesItsStream(t *testing.T) {
	f := &fake{}
	inBubble(t, f, func(t *testing.T, p *pipes) {
		ended := make(chan error, 1)
		f.generate = func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
			for {
				if _, err := tell("more ")(ctx, r, emit); err != nil {
					ended <- err
					return shared.Result{}, err
				}
			}
		}
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		if err := post("/v1/chat/completions", askStream).Write(conn); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; shared.KindOf(err) != shared.KindCancelled {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
}

func TestLongStreamsAndKeptConnections(t *testing.T) {
	f := &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		for range 10 {
			timer := time.NewTimer(50 * time.Second)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return shared.Result{}, ctx.Err()
			}
			if err := emit(shared.Chunk{Text: "x"}); err != nil {
				return shared.Result{}, err
			}
		}
		return shared.Result{FinishReason: shared.FinishStop}, nil
	}}
	inBubble(t, f, func(t *testing.T, p *pipes) {
		dials := 0
		transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return p.dial(ctx, network, addr)
		}}
		defer transport.CloseIdleConnections()
		for _, body := range []string{askStream, askStory, askStream} {
			resp, err := transport.RoundTrip(post("/v1/chat/completions", body))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || !strings.Contains(string(all), `"stop"`) {
				t.Errorf("%d %s %v", resp.StatusCode, all, err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
	})
}

func TestSlowSendersAreCut(t *testing.T) {
	inBubble(t, &fake{}, func(t *testing.T, p *pipes) {
		for text, limit := range map[string]time.Duration{
			"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n":                                  readHeaderTimeout,
			"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{\"mod": readBodyTimeout,
		} {
			conn, err := p.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
			if took := time.Since(began); took < limit || took > limit+time.Second {
				t.Errorf("%q cut after %v", text, took)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestShutdownEndsThePagesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{HTTPSpec: shared.HTTPSpec{Listen: "127.0.0.1:0"}}, &fake{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p := newPipes()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, p) }()
		transport := &http.Transport{DialContext: p.dial}
		defer transport.CloseIdleConnections()
		req := post("/api/events", "")
		req.Method = "GET"
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"gpt-4o-mini"`) {
		}
		began := time.Now()
		cancel()
		for lines.Scan() { // a pipe buffers nothing: somebody must take the end of the stream
		}
		if err := <-served; err != nil || time.Since(began) > time.Second {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
	})
}
