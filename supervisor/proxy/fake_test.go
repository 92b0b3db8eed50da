package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func identity(precision string) shared.Identity {
	return shared.Identity{
		ModelRevision: "sha256:" + strings.Repeat("0", 62) + precision[:2], Precision: precision,
		TokenizerRevision: "sha256:t", LayoutRevision: "sha256:l", SlotRevision: "sha256:s",
	}
}

// fake is a supervisor with one model in two precisions.
type fake struct {
	shared.Frontend                   // what is not overridden is not called
	slots           []shared.SlotInfo // nil means two precisions of one model
	generate        func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error)
}

func slot(id, precision string) shared.SlotInfo {
	return shared.SlotInfo{
		SlotID: id, Model: "story", Identity: identity(precision), Status: shared.SlotResident, Process: shared.ProcessUp,
		ContextTokens: 512, Restarts: 3, HostBytes: 10, DeviceBytes: 20,
	}
}

func (f *fake) ListSlots(context.Context) (shared.SlotList, error) {
	slots := f.slots
	if slots == nil {
		slots = []shared.SlotInfo{slot("q8", "Q8_0"), slot("f16", "F16")}
	}
	return shared.SlotList{
		Slots:   slices.Clone(slots),
		Aliases: map[string]string{"gpt-4o-mini": "q8"},
	}, nil
}

func (f *fake) WatchSlots(ctx context.Context, changed func(shared.SlotList) error) error {
	list, _ := f.ListSlots(ctx)
	if err := changed(list); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) find(r shared.Requirement) (shared.SlotInfo, error) {
	list, _ := f.ListSlots(context.Background())
	fits := slices.DeleteFunc(list.Slots, func(s shared.SlotInfo) bool {
		return r.Model != s.Model && list.Aliases[r.Model] != s.SlotID ||
			r.Precision != "" && r.Precision != s.Identity.Precision ||
			r.ModelRevision != "" && r.ModelRevision != s.Identity.ModelRevision
	})
	if len(fits) == 1 {
		return fits[0], nil
	}
	err := &shared.Error{Kind: shared.KindNotFound, Message: "no slot matches", Field: "model"}
	if len(fits) > 1 {
		err = &shared.Error{Kind: shared.KindAmbiguous, Message: "several identities match", Field: "precision"}
		for _, s := range fits {
			err.Candidates = append(err.Candidates, shared.Candidate{SlotID: s.SlotID, Model: s.Model, Identity: s.Identity})
		}
	}
	return shared.SlotInfo{}, err
}

func (f *fake) Resolve(_ context.Context, r shared.Requirement) (shared.Resolution, error) {
	s, err := f.find(r)
	return shared.Resolution{Identity: s.Identity, SlotIDs: []string{s.SlotID}, Model: s.Model}, err
}

func (f *fake) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	s, err := f.find(req.Requirement)
	if err != nil {
		return shared.Result{}, err
	}
	generate := f.generate
	if generate == nil {
		generate = tell("Once ", "upon ", "a time")
	}
	res, err := generate(ctx, req, emit)
	res.SlotID, res.Model, res.Identity = s.SlotID, s.Model, s.Identity
	return res, err
}

// tell answers with these pieces.
func tell(pieces ...string) func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
	return func(_ context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		phases := &shared.Phases{Route: 3 * time.Nanosecond, Queue: 2, Prefill: 5}
		for _, p := range pieces {
			if err := emit(shared.Chunk{Text: p, Phases: phases}); err != nil {
				return shared.Result{}, err
			}
			phases = nil
		}
		return shared.Result{
			FinishReason: shared.FinishStop, SlotHit: true, Prompt: time.Millisecond, Predicted: time.Millisecond,
			Usage: shared.Usage{PromptTokens: 7, CachedTokens: 4, CompletionTokens: 3},
		}, nil
	}
}

func (f *fake) slotOp(id string) (shared.SlotInfo, error) {
	if id != "q8" {
		return shared.SlotInfo{}, shared.Errorf(shared.KindNotFound, "there is no slot %q", id)
	}
	return slot("q8", "Q8_0"), nil
}

func (f *fake) Prepare(_ context.Context, id string, _ func(shared.Progress)) (shared.SlotInfo, error) {
	return f.slotOp(id)
}
func (f *fake) Evict(_ context.Context, id string, _ bool) (shared.SlotInfo, error) {
	return f.slotOp(id)
}
func (f *fake) Restart(_ context.Context, id string) (shared.SlotInfo, error) { return f.slotOp(id) }

func (f *fake) Tokenize(_ context.Context, req shared.TokenizeRequest) ([]int32, error) {
	_, err := f.find(req.Requirement)
	if len(req.Messages) > 0 {
		return make([]int32, 10*len(req.Messages)+len(req.Tools)), err
	}
	return []int32{1, int32(len(req.Text))}, err
}

func (f *fake) Detokenize(_ context.Context, req shared.DetokenizeRequest) (string, error) {
	_, err := f.find(req.Requirement)
	return fmt.Sprint(req.Tokens), err
}

// Embed gives each input a vector of its length.
func (f *fake) Embed(_ context.Context, req shared.EmbedRequest) (shared.EmbedResult, error) {
	s, err := f.find(req.Requirement)
	res := shared.EmbedResult{SlotID: s.SlotID, Model: s.Model, Identity: s.Identity, Pooling: "mean"}
	for _, in := range req.Inputs {
		n := len(in.Text) + len(in.Tokens)
		res.Vectors = append(res.Vectors, []float32{float32(n), -0.5})
		res.PromptTokens += n
	}
	return res, err
}

// client talks to a proxy in this process.
type client struct {
	t   testing.TB
	url string
}

func start(t testing.TB, cfg Config, f *fake) client {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := New(cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return client{t, srv.URL}
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (c client) do(method, path, body string, headers ...string) reply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(all)}
}

func (c client) chat(body string, headers ...string) reply {
	c.t.Helper()
	return c.do("POST", "/v1/chat/completions", body, headers...)
}

// as reads a JSON body.
func as[T any](t testing.TB, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %d %s", err, r.status, r.body)
	}
	return v
}

// wantError wants OpenAI's error object with this status, code and parameter.
func (r reply) wantError(t testing.TB, status int, code, param string) errorObject {
	t.Helper()
	e := as[errorBody](t, r).Error
	got := ""
	if e.Param != nil {
		got = *e.Param
	}
	if r.status != status || e.Code != code || got != param || e.Message == "" || e.Type == "" {
		t.Errorf("got %d code %q param %q: %s; want %d %q %q", r.status, e.Code, got, r.body, status, code, param)
	}
	return e
}

const askStory = `{"model":"story:Q8_0","messages":[{"role":"user","content":"hi"}]}`
