package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client is one model of an OpenAI-compatible server.
type Client struct {
	// Base is the server's address, without /v1.
	Base  string
	Model string
	// Key is sent as a bearer token unless it is empty.
	Key string
	// IgnoreEOS asks for answers of full length, which not every server understands.
	IgnoreEOS bool
	// HTTP makes the requests. It must not keep connections: some servers close
	// theirs after each stream.
	HTTP *http.Client
}

var _ Target = (*Client)(nil)

// NewHTTPClient makes a client that opens a connection for each request, so
// that all servers are treated alike.
func NewHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatRequest struct {
	Model         string         `json:"model"`
	Messages      []chatMessage  `json:"messages"`
	MaxTokens     int            `json:"max_tokens"`
	Temperature   float64        `json:"temperature"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
}

// event is one server-sent event of an answer; error is how servers end those
// that they cannot finish.
type event struct {
	Choices []struct {
		Delta struct {
			Content          string          `json:"content"`
			ReasoningContent string          `json:"reasoning_content"`
			ToolCalls        json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Timings *struct {
		PromptMS float64            `json:"prompt_ms"`
		CacheN   int                `json:"cache_n"`
		PhaseMS  map[string]float64 `json:"phase_ms"`
	} `json:"timings"`
	Error json.RawMessage `json:"error"`
}

func (e *event) hasContent() bool {
	for _, c := range e.Choices {
		if c.Delta.Content != "" || c.Delta.ReasoningContent != "" || len(c.Delta.ToolCalls) > 0 {
			return true
		}
	}
	return false
}

// Ask streams one answer. The clock starts before the connection is opened and
// stops for the first chunk when its event has been read and has content.
func (c *Client) Ask(ctx context.Context, q Question) (Sample, error) {
	body := chatRequest{
		Model: c.Model, MaxTokens: q.MaxTokens, Stream: true, IgnoreEOS: c.IgnoreEOS,
		StreamOptions: map[string]any{"include_usage": true},
	}
	if q.System != "" {
		body.Messages = append(body.Messages, chatMessage{"system", q.System})
	}
	body.Messages = append(body.Messages, chatMessage{"user", q.Text})
	data, err := json.Marshal(body)
	if err != nil {
		return Sample{}, err
	}
	req, err := c.request(ctx, http.MethodPost, "/v1/chat/completions", data)
	if err != nil {
		return Sample{}, err
	}
	start := time.Now()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Sample{}, fmt.Errorf("cannot ask %s: %w", c.Base, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it matters
	if resp.StatusCode != http.StatusOK {
		return Sample{}, fmt.Errorf("cannot ask %s: %w", c.Base, statusError(resp))
	}
	s, err := readAnswer(resp.Body, start)
	if err != nil {
		return Sample{}, fmt.Errorf("the answer of %s is not usable: %w", c.Base, err)
	}
	return s, nil
}

func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot ask %s: %w", c.Base, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return req, nil
}

// mostLine bounds one event of a stream.
const mostLine = 1 << 20

// readAnswer reads a stream of events to its [DONE].
func readAnswer(body io.Reader, start time.Time) (Sample, error) {
	var s Sample
	chunks := 0
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 16<<10), mostLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			s.Full = time.Since(start)
			switch {
			case s.FirstChunk == 0:
				return Sample{}, errors.New("it has no content")
			case s.Tokens == 0: // servers that do not count send a token a chunk
				s.Tokens = chunks
			}
			return s, nil
		}
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return Sample{}, fmt.Errorf("an event is not JSON: %w", err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return Sample{}, fmt.Errorf("it ends in an error: %s", shortened(e.Error))
		}
		if e.hasContent() {
			chunks++
			if s.FirstChunk == 0 {
				s.FirstChunk = time.Since(start)
			}
		}
		s.note(&e)
	}
	if err := lines.Err(); err != nil {
		return Sample{}, err
	}
	return Sample{}, errors.New("it ends before [DONE]")
}

// note takes over what an event says of the whole request.
func (s *Sample) note(e *event) {
	if u := e.Usage; u != nil {
		s.PromptTokens, s.Tokens, s.CachedTokens = u.PromptTokens, u.CompletionTokens, u.Details.CachedTokens
	}
	if t := e.Timings; t != nil {
		s.Phases = t.PhaseMS
		s.CachedTokens = max(s.CachedTokens, t.CacheN)
		ms := t.PromptMS
		if t.PhaseMS != nil {
			ms = t.PhaseMS["prefill"] + t.PhaseMS["decode_first_token"]
		}
		s.Engine = time.Duration(ms * float64(time.Millisecond))
	}
}

// statusError says what a server answered instead of an answer.
func statusError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what came of it is enough
	return fmt.Errorf("%s: %s", resp.Status, shortened(text))
}

func shortened(text []byte) string {
	const most = 300
	s := strings.Join(strings.Fields(string(text)), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
