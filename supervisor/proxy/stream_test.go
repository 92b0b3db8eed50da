package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

const askStream = `{"model":"story:Q8_0","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

type chunkBody struct {
	Model   string
	Choices []struct {
		Index        int
		Delta        struct{ Role, Content string }
		Text         string
		FinishReason *string `json:"finish_reason"`
	}
	Usage   *usageJSON
	Timings *timingsJSON
	Error   *errorObject
}

// events splits a stream; every frame is one event with one line of data.
func events(t testing.TB, body string) []string {
	t.Helper()
	var all []string
	frames := strings.Split(body, "\n\n")
	for _, f := range frames[:len(frames)-1] {
		data, ok := strings.CutPrefix(f, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("no event: %q", f)
		}
		all = append(all, data)
	}
	if frames[len(frames)-1] != "" {
		t.Fatalf("cut short: %q", frames[len(frames)-1])
	}
	return all
}

func parse(t testing.TB, data string) chunkBody {
	t.Helper()
	var c chunkBody
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return c
}

func TestStreamEndsInDone(t *testing.T) {
	c := start(t, Config{}, &fake{})
	r := c.chat(askStream)
	h := r.header
	if r.status != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache" ||
		h.Get("X-Accel-Buffering") != "no" || !strings.HasPrefix(h.Get("Server-Timing"), "route;dur=0.000, queue;dur=0.000") {
		t.Errorf("%d %v", r.status, h)
	}
	all := events(t, r.body)
	if len(all) != 6 || all[5] != "[DONE]" || strings.Count(r.body, "[DONE]") != 1 {
		t.Fatalf("frames: %q", all)
	}
	var text string
	for i, data := range all[:4] {
		choice := parse(t, data).Choices[0]
		text += choice.Delta.Content
		if (choice.Delta.Role == "assistant") != (i == 0) || (choice.FinishReason != nil) != (i == 3) || parse(t, data).Model != "story:Q8_0" {
			t.Errorf("frame %d: %s", i, data)
		}
	}
	last := parse(t, all[4])
	if text != "Once upon a time" || last.Usage == nil || last.Usage.TotalTokens != 10 || last.Usage.PromptTokensDetails.CachedTokens != 4 {
		t.Errorf("text %q, last %s", text, all[4])
	}
	tm := last.Timings
	if tm == nil || tm.SlotID != "q8" || tm.Identity != toIdentityJSON(identity("Q8_0")) || tm.PromptN != 3 || tm.CacheN != 4 || tm.PredictedN != 3 {
		t.Fatalf("timings %+v", tm)
	}
	var sum float64
	for _, ms := range tm.PhaseMS {
		sum += ms
	}
	if len(tm.PhaseMS) != 8 || tm.FirstChunkMS <= 0 || math.Abs(sum-tm.FirstChunkMS) > 1e-6 || tm.FullResponseMS < tm.FirstChunkMS {
		t.Errorf("phases add up to %v of %v: %v", sum, tm.FirstChunkMS, tm.PhaseMS)
	}
}

func TestCompletionStream(t *testing.T) {
	c := start(t, Config{}, &fake{})
	r := c.do("POST", "/v1/completions", `{"model":"story:F16","prompt":"hi","stream":true}`)
	all := events(t, r.body)
	if len(all) != 6 || parse(t, all[0]).Choices[0].Text != "Once " || parse(t, all[4]).Usage != nil || all[5] != "[DONE]" {
		t.Errorf("frames: %q", all)
	}
}

func TestStreamWithoutText(t *testing.T) {
	c := start(t, Config{}, &fake{generate: tell()})
	all := events(t, c.chat(askStream).body)
	if len(all) != 3 || parse(t, all[1]).Timings.FirstChunkMS != 0 || all[2] != "[DONE]" {
		t.Errorf("frames: %q", all)
	}
}

func TestErrorAfterTheFirstByte(t *testing.T) {
	lost := shared.Errorf(shared.KindWorkerLost, "the worker ended")
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		_, err := tell("Once")(ctx, r, emit)
		return shared.Result{}, errors.Join(lost, err)
	}})
	r := c.chat(askStream)
	all := events(t, r.body)
	if r.status != 200 || len(all) != 2 || parse(t, all[1]).Error == nil || parse(t, all[1]).Error.Code != "worker_lost" {
		t.Errorf("%d %q", r.status, all)
	}
	if r := c.chat(askStory); r.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", r.header)
	} else {
		r.wantError(t, 503, "worker_lost", "")
	}
}

func TestErrorKinds(t *testing.T) {
	var give error
	c := start(t, Config{}, &fake{generate: func(context.Context, shared.GenerateRequest, func(shared.Chunk) error) (shared.Result, error) {
		return shared.Result{}, give
	}})
	for kind, want := range map[shared.Kind]struct {
		status int
		code   string
	}{
		shared.KindInvalid: {400, "invalid"}, shared.KindContextTooLong: {400, "context_length_exceeded"},
		shared.KindBusy: {429, "rate_limit_exceeded"}, shared.KindUnavailable: {503, "unavailable"},
		shared.KindDeadline: {504, "deadline"}, shared.KindEngine: {500, "engine"}, shared.KindNotResident: {503, "not_resident"},
	} {
		give = &shared.Error{Kind: kind, Message: "no", Field: "f", RetryAfter: 1500 * time.Millisecond}
		r := c.chat(askStream)
		r.wantError(t, want.status, want.code, "f")
		if after := r.header.Get("Retry-After"); (want.status == 503 || want.status == 429) != (after == "2") {
			t.Errorf("%s: Retry-After %q", kind, after)
		}
	}
}

func TestPending(t *testing.T) {
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		if r.OnMiss == shared.OnMissPending {
			return shared.Result{}, &shared.Error{Kind: shared.KindPending, SlotID: "q8", RetryAfter: 2 * time.Second}
		}
		return tell("x")(ctx, r, emit)
	}})
	for _, body := range []string{askStory, askStream} {
		r := c.chat(body, "Prefer", "wait=3, Respond-Async")
		if p := as[pendingBody](t, r); r.status != 202 || p != (pendingBody{"pending", "q8", 2000}) || r.header.Get("Retry-After") != "2" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
		if r := c.chat(body); r.status != 200 {
			t.Errorf("without the header: %d", r.status)
		}
	}
}

func TestSeveralChoices(t *testing.T) {
	var mu sync.Mutex
	seeds := map[uint32]bool{}
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		mu.Lock()
		seeds[r.Sampling.Seed] = true
		mu.Unlock()
		return tell("a", "b")(ctx, r, emit)
	}})
	body := as[struct {
		Choices []chatChoice
		Usage   usageJSON
	}](t, c.chat(strings.Replace(askStory, "{", `{"n":2,"seed":8,`, 1)))
	if len(body.Choices) != 2 || body.Choices[1].Index != 1 || *body.Choices[1].Message.Content != "ab" ||
		body.Usage.PromptTokens != 7 || body.Usage.CompletionTokens != 6 || body.Usage.TotalTokens != 13 {
		t.Errorf("%+v", body)
	}
	if !seeds[8] || !seeds[9] {
		t.Errorf("the choices used seeds %v", seeds)
	}
	all := events(t, c.chat(strings.Replace(askStream, "{", `{"n":2,`, 1)).body)
	texts, finished := map[int]string{}, map[int]int{}
	for _, data := range all[:len(all)-2] {
		choice := parse(t, data).Choices[0]
		texts[choice.Index] += choice.Delta.Content
		if choice.FinishReason != nil {
			finished[choice.Index]++
		}
	}
	if len(all) != 8 || texts[0] != "ab" || texts[1] != "ab" || finished[0] != 1 || finished[1] != 1 || all[7] != "[DONE]" {
		t.Errorf("frames: %q", all)
	}
}

func TestClientLeaves(t *testing.T) {
	ended := make(chan error, 1)
	c := start(t, Config{}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		_, err := tell("Once")(ctx, r, emit)
		<-ctx.Done()
		ended <- err
		return shared.Result{}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/v1/chat/completions", strings.NewReader(askStream))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, "Once") {
		t.Errorf("%q %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMaxStreams(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	c := start(t, Config{HTTPSpec: shared.HTTPSpec{MaxStreams: 1}}, &fake{generate: func(ctx context.Context, r shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
		entered <- struct{}{}
		<-leave
		return tell("x")(ctx, r, emit)
	}})
	first := make(chan reply, 1)
	go func() { first <- c.chat(askStory) }()
	<-entered
	r := c.chat(askStory)
	r.wantError(t, 429, "rate_limit_exceeded", "")
	if r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	c.do("GET", "/v1/models", "")
	close(leave)
	if r := <-first; r.status != 200 {
		t.Errorf("the first got %d", r.status)
	}
}
