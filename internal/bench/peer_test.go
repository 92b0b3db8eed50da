package bench

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecognise(t *testing.T) {
	for kind, engine := range map[Kind]string{Firstframe: "", LlamaServer: "b1-test", LlamaRouter: "b1-test", LlamaSwap: "", Ollama: "0.9.1", Unknown: ""} {
		_, p := recognised(t, kind)
		if p.Kind != kind || p.Engine != engine || !slices.Equal(p.Models, []string{"story-q4", "tale-q8"}) {
			t.Errorf("a %s is taken for %s %q with %v", kind, p.Kind, p.Engine, p.Models)
		}
		if p.IgnoreEOS != (kind != Ollama && kind != Unknown) {
			t.Errorf("%s: ignore_eos is %v", kind, p.IgnoreEOS)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://127.0.0.1", "http://"} {
		if _, err := Recognise(t.Context(), bad, ""); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer broken.Close()
	if _, err := Recognise(t.Context(), broken.URL, ""); err == nil || !strings.Contains(err.Error(), "not the document") {
		t.Errorf("a server of pages: %v", err)
	}
}

func TestChoose(t *testing.T) {
	_, p := recognised(t, LlamaServer)
	for _, tt := range []struct{ name, file, want string }{
		{"tale-q8", "", "tale-q8"}, {"", "/models/Story-Q4.gguf", "story-q4"}, {"", "/models/other.gguf", ""}, {"none", "/models/story-q4.gguf", ""},
	} {
		p.Model = ""
		if err := p.Choose(tt.name, tt.file); p.Model != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q, %q: %q, %v", tt.name, tt.file, p.Model, err)
		}
	}
	p.Models = []string{"only"}
	if err := p.Choose("", "/models/other.gguf"); err != nil || p.Model != "only" {
		t.Errorf("the only model: %q, %v", p.Model, err)
	}
	p.Models = []string{"story-q4:Q4_0", "story-q4", "story"} // as firstframe lists one slot
	if err := p.Choose("", "/models/Story-Q4.gguf"); err != nil || p.Model != "story-q4" {
		t.Errorf("the model named as the file is: %q, %v", p.Model, err)
	}
}

func TestUnloadAndRestart(t *testing.T) {
	for kind, want := range map[Kind][]string{
		Firstframe: {"evict", "restart", "prepare"}, LlamaRouter: {"unload", "load"}, Ollama: {"unload", "unload", "load"},
		LlamaSwap: {"unload", "unload", "ask story-q4"}, LlamaServer: nil, Unknown: nil,
	} {
		f, p := recognised(t, kind)
		unload, restart := p.Unload(t.Context()), p.Restart(t.Context())
		if possible := want != nil; possible != p.CanUnload() || (unload == nil) != possible || (restart == nil) != possible {
			t.Errorf("%s: %v, %v", kind, unload, restart)
		}
		if want == nil && !errors.Is(unload, ErrNoAPI) {
			t.Errorf("%s: %v", kind, unload)
		}
		if diff := cmp.Diff(want, f.asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestAsk(t *testing.T) {
	_, p := recognised(t, LlamaServer)
	s, err := p.Ask(t.Context(), Question{System: "Be brief.", Text: "Hello!", MaxTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	if s.FirstChunk <= 0 || s.Full < s.FirstChunk || s.Tokens != 2 || s.PromptTokens != 12 || s.CachedTokens != 8 || s.Engine != time.Microsecond {
		t.Errorf("%+v", s)
	}
}

// Whatever a server does instead of answering is an error that says so.
func TestAskOfServersThatFail(t *testing.T) {
	say := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for want, answer := range map[string]http.HandlerFunc{
		"503 Service Unavailable: busy":         func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		"ends before [DONE]":                    say("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
		"has no content":                        say("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: [DONE]\n\n"),
		"ends in an error: {\"message\":\"x\"}": say("data: {\"error\":{\"message\":\"x\"}}\n\n"),
		"is not JSON":                           say("data: {\n\n"),
		"token too long":                        say("data: " + strings.Repeat("x", mostLine+1)),
		"EOF":                                   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		f, p := recognised(t, Unknown)
		f.answer = answer
		if _, err := p.Ask(t.Context(), Question{Text: "Hello!"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("instead of %q: %v", want, err)
		}
	}
}

// Both sides do the same work in turns, and pairs are made of it.
func TestMatch(t *testing.T) {
	ours, a := recognised(t, Firstframe)
	theirs, b := recognised(t, LlamaRouter)
	prompts, err := NewPrompts(t.Context(), 1, a.Count)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	m := Match{
		Ours: a, Theirs: b, OurOther: "tale-q8", TheirOther: "tale-q8", Prompts: prompts,
		Pairs: 2, WarmUp: 0, MaxTokens: 2, ContextTokens: 2048, Cases: MatchCases(), Step: func() { steps++ },
	}
	list, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen, want := map[string]int{}, 0
	for _, c := range list {
		if c.NotComparable == "" {
			seen[c.Case] = len(c.Pairs)
			for _, p := range c.Pairs {
				if p.Ours <= 0 || p.Theirs <= 0 {
					t.Errorf("%s: %+v", c.Case, p)
				}
			}
		}
	}
	for _, name := range MatchCases() {
		want += StepsOf(name, 2)
		if seen[name] != StepsOf(name, 2) {
			t.Errorf("%s has %d pairs instead of %d", name, seen[name], StepsOf(name, 2))
		}
	}
	if steps != want {
		t.Errorf("%d steps instead of %d", steps, want)
	}
	// A server's own way to unload aside, both were asked the same.
	asks := func(f *fakePeer) (n int) {
		for _, what := range f.asked {
			if strings.HasPrefix(what, "ask ") {
				n++
			}
		}
		return n
	}
	if asks(ours) != asks(theirs) || !slices.Contains(ours.asked, "evict") || !slices.Contains(theirs.asked, "unload") {
		t.Errorf("%d requests to one side, %d to the other", asks(ours), asks(theirs))
	}
}

// A server without an API to unload, and no second model: those cases say so,
// the others are measured. A server that fails ends the comparison.
func TestMatchWithoutAPI(t *testing.T) {
	_, a := recognised(t, Firstframe)
	f, b := recognised(t, Unknown)
	prompts, err := NewPrompts(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := Match{Ours: a, Theirs: b, Prompts: prompts, Pairs: 1, MaxTokens: 2, ContextTokens: 2048, Cases: []string{MatchHit, MatchReload, MatchSwitch, MatchRestart, MatchAway}, Step: func() {}}
	list, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var without []string
	for _, c := range list {
		if c.NotComparable != "" {
			without = append(without, c.Case)
		}
	}
	if diff := cmp.Diff([]string{MatchReload, MatchSwitch, MatchRestart, MatchAway}, without); diff != "" {
		t.Errorf("not comparable (-want +got):\n%s", diff)
	}
	f.answer = func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of memory", http.StatusInternalServerError)
	}
	if _, err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "resident_page_hit: cannot ask "+f.URL+": 500 Internal Server Error: out of memory") {
		t.Errorf("a server that fails: %v", err)
	}
}

// A switch in which our slot stays where it is measures no switch.
func TestMatchWithoutEviction(t *testing.T) {
	ours, a := recognised(t, Firstframe)
	_, b := recognised(t, LlamaRouter)
	ours.stays = "resident"
	prompts, err := NewPrompts(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := Match{Ours: a, Theirs: b, OurOther: "tale-q8", TheirOther: "tale-q8", Prompts: prompts, Pairs: 1, MaxTokens: 2, ContextTokens: 2048, Cases: []string{MatchBack}, Step: func() {}}
	list, err := m.Run(t.Context())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].NotComparable, "not evicted") {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestNotComparable(t *testing.T) {
	ours := PeerInfo{Engine: "llama.cpp 0.5.0", CPUVariant: "zen4", Threads: "1"}
	if got := NotComparable(ours, ours); len(got) != 0 {
		t.Errorf("equals differ: %v", got)
	}
	want := []string{"engine version: ours is llama.cpp 0.5.0, theirs is b1", "CPU variant of the engine: ours is zen4, theirs is x64", "thread count: ours is 1, theirs is not known"}
	if diff := cmp.Diff(want, NotComparable(ours, PeerInfo{Engine: "b1", CPUVariant: "x64"})); diff != "" {
		t.Error(diff)
	}
}
