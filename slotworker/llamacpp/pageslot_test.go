package llamacpp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// recorded is the engine with a look at the logits that tokens are chosen from.
type recorded struct {
	*Engine
	tamper atomic.Pointer[tampering]                   // with what is restored
	before atomic.Pointer[func(rows []slotworker.Row)] // each step
	mu     sync.Mutex
	logits [][]float32                 // since the last take
	chosen map[string]*recordedSampler // of all requests, by their prompts, once it is made
}

// tampering stands between the store and the engine, with all checks passed. It
// gives what the engine is to take, and what the engine is to say of it.
type tampering func(c slotworker.Context, seq int32, state []byte) int

func (e *recorded) take() [][]float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.logits
	e.logits = nil
	return l
}

// record begins to keep the logits of each request apart.
func (e *recorded) record() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.chosen = map[string]*recordedSampler{}
}

// recording is the logits of the request with a prompt.
func (e *recorded) recording(prompt []int32) [][]float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.chosen[fmt.Sprint(prompt)]; r != nil {
		return r.logits
	}
	return nil
}

type recordedModel struct {
	slotworker.Model
	engine *recorded
}

// recordedSampler has the logits of one request.
type recordedSampler struct {
	slotworker.Sampler
	logits [][]float32
}

type recordedContext struct {
	slotworker.Context
	engine *recorded
}

func (e *recorded) Load(req slotworker.LoadRequest) (slotworker.Model, error) {
	m, err := e.Engine.Load(req)
	if err != nil {
		return nil, err
	}
	return &recordedModel{m, e}, nil
}

func (m *recordedModel) NewContext(cfg slotworker.ContextConfig) (slotworker.Context, error) {
	c, err := m.Model.NewContext(cfg)
	if err != nil {
		return nil, err
	}
	return &recordedContext{c, m.engine}, nil
}

func (m *recordedModel) NewSampler(how shared.Sampling, history []int32) (slotworker.Sampler, error) {
	s, err := m.Model.NewSampler(how, history)
	if err != nil {
		return nil, err
	}
	r := &recordedSampler{Sampler: s}
	m.engine.mu.Lock()
	if m.engine.chosen != nil {
		m.engine.chosen[fmt.Sprint(history)] = r
	}
	m.engine.mu.Unlock()
	return r, nil
}

func (c *recordedContext) Sample(s slotworker.Sampler, row int) int32 {
	r := s.(*recordedSampler)
	logits := slices.Clone(c.Logits(row))
	c.engine.mu.Lock()
	c.engine.logits = append(c.engine.logits, logits)
	if c.engine.chosen != nil {
		r.logits = append(r.logits, logits)
	}
	c.engine.mu.Unlock()
	return c.Context.Sample(r.Sampler, row)
}

// Decode lets the test hold a step.
func (c *recordedContext) Decode(rows []slotworker.Row) error {
	if f := c.engine.before.Load(); f != nil {
		(*f)(rows)
	}
	return c.Context.Decode(rows)
}

// StateSet lets the test tamper with what is restored.
func (c *recordedContext) StateSet(seq int32, src []byte) int {
	if f := c.engine.tamper.Load(); f != nil {
		return (*f)(c.Context, seq, src)
	}
	return c.Context.StateSet(seq, src)
}

// foreignPage exchanges the first page for that of another prompt's state. Pages
// of one prompt that change places are no test: attention does not mind the order
// of cells, and each row carries its position.
func foreignPage(other pages.State) tampering {
	return func(c slotworker.Context, seq int32, src []byte) int {
		if st, err := pages.ParseState(src); err == nil && st.Cells > 64 {
			c.StateSet(seq, join(st, cut(other, 0, 64), cut(st, 64, st.Cells)))
			return len(src)
		}
		return c.StateSet(seq, src)
	}
}

func cut(st pages.State, from, to int) pages.Piece {
	n := to - from
	if n == 0 {
		return pages.Piece{}
	}
	p := pages.Piece{Payload: make([]byte, n*st.Layout.CellBytes()), Cells: n, Use: n}
	if err := st.Cut(from, to, p.Payload); err != nil {
		panic(err)
	}
	return p
}

// join makes a state of the same sequence from pieces.
func join(st pages.State, pieces ...pages.Piece) []byte {
	pieces = slices.DeleteFunc(pieces, func(p pages.Piece) bool { return p.Cells == 0 })
	blob, err := st.Layout.Join(nil, st.Sequence, pieces)
	if err != nil {
		panic(err)
	}
	return blob
}

// pageSlot is a worker in this process.
type pageSlot struct {
	*slotworker.Worker
	t        testing.TB
	engine   *recorded
	spec     shared.SlotSpec
	identity shared.Identity
}

// newPageSlot prepares a slot whose state lies in dir.
func newPageSlot(t testing.TB, dir string, spec shared.SlotSpec) *pageSlot {
	t.Helper()
	s := &pageSlot{t: t, engine: &recorded{Engine: engine(t)}, spec: spec}
	s.identity = identityOf(t, spec)
	var err error
	s.Worker, err = slotworker.New(slotworker.Config{
		Engine: func() (slotworker.Engine, error) { return s.engine, nil }, StateDir: dir, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.prepare()
	return s
}

// identityOf is the identity of a declared slot.
func identityOf(t testing.TB, spec shared.SlotSpec) shared.Identity {
	t.Helper()
	header, err := gguf.ReadFile(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	file, size, err := gguf.Open(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	digest, err := gguf.Digest(t.Context(), file, size, nil)
	if err != nil {
		t.Fatal(err)
	}
	return header.Identity(digest, spec)
}

func (s *pageSlot) prepare() {
	s.t.Helper()
	_, err := s.Prefetch(s.t.Context(), shared.PrefetchRequest{
		Spec: s.spec, Plan: shared.PrefetchPlan{SlotID: s.spec.SlotID, HostBufferID: "h"}, Expected: s.identity,
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Activate(s.t.Context(), shared.ActivateRequest{Expected: s.identity}); err != nil {
		s.t.Fatal(err)
	}
	s.engine.take() // the canary's
}

func (s *pageSlot) end() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Error(err)
	}
}

func (s *pageSlot) ask(ctx context.Context, prompt []int32, n int) ([]int32, shared.Result, error) {
	var tokens []int32
	res, err := s.Generate(ctx, shared.GenerateRequest{Identity: s.identity, PromptTokens: prompt, MaxTokens: n, IgnoreEOS: true}, func(c shared.Chunk) error {
		tokens = append(tokens, c.Tokens...)
		return nil
	})
	return tokens, res, err
}

// must asks at concurrency 1 and gives the logits too.
func (s *pageSlot) must(prompt []int32, n int) ([]int32, [][]float32, shared.Result) {
	s.t.Helper()
	s.engine.take()
	tokens, res, err := s.ask(s.t.Context(), prompt, n)
	if err != nil {
		s.t.Fatal(err)
	}
	return tokens, s.engine.take(), res
}

func (s *pageSlot) stats() shared.WorkerStatus {
	s.t.Helper()
	st, err := s.Status(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

func pageSpec(precision string, reuse shared.Reuse) shared.SlotSpec {
	return shared.SlotSpec{
		SlotID: "story", Device: "cpu", Transfer: shared.TransferMmap, KVType: "f16", Threads: 1,
		ModelPath: modelPath(precision), ContextTokens: 512, Parallel: 1, PageTokens: 64, PrefillChunk: 128, Reuse: reuse,
	}
}

func noise(random *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = 10 + random.Int32N(900)
	}
	return tokens
}

// prompts share prefixes of random lengths with one of the last few.
func prompts(random *rand.Rand, n int) [][]int32 {
	var list [][]int32
	for range n {
		var p []int32
		if len(list) > 0 && random.IntN(4) > 0 {
			p = list[max(0, len(list)-8)+random.IntN(min(8, len(list)))]
			p = p[:1+random.IntN(len(p))]
		}
		list = append(list, append(slices.Clone(p), noise(random, 1+random.IntN(min(110, 321-len(p))))...))
	}
	return list
}

func same(a, b [][]float32) bool { return slices.EqualFunc(a, b, slices.Equal) }

// cold computes what an exact slot without any page computes.
func cold(t testing.TB, c *Context, prompt []int32, n int) (tokens []int32, logits [][]float32) {
	t.Helper()
	c.SeqRemove(0, 0, -1)
	full := (len(prompt) - 1) / 64 * 64
	for at := 0; at < full; at += 128 {
		decode(t, c, run(0, int32(at), prompt[at:min(at+128, full)]...))
	}
	rows := run(0, int32(full), prompt[full:]...)
	for range n {
		l := last(t, c, rows)
		logits, tokens = append(logits, l), append(tokens, best(l))
		rows = run(0, int32(len(prompt)+len(tokens)-1), best(l))
	}
	return tokens, logits
}

// pageFiles are all pages in a disk tier that are in use.
func pageFiles(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".page" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d page files, %v", len(files), err)
	}
	return files
}
