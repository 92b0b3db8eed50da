package slotworker_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
)

// opened is the process's one engine.
var opened struct {
	once   sync.Once
	engine *llamacpp.Engine
	err    error
}

func engine(t testing.TB) slotworker.Engine {
	t.Helper()
	dir := enginetest.Dir(t)
	opened.once.Do(func() { opened.engine, opened.err = llamacpp.Open(dir) })
	if opened.err != nil {
		t.Fatal(opened.err)
	}
	return opened.engine
}

// realSlot is a worker on the real engine.
type realSlot struct {
	*slotworker.Worker
	t        testing.TB
	stateDir string
	spec     shared.SlotSpec
	expected shared.Identity
}

const (
	realTokens = 256
	realChunk  = 64
)

// stepped is an engine that calls before ahead of each of its steps.
type stepped struct {
	slotworker.Engine
	before atomic.Pointer[func()]
}

type steppedModel struct {
	slotworker.Model
	engine *stepped
}

type steppedContext struct {
	slotworker.Context
	engine *stepped
}

func (e *stepped) Load(req slotworker.LoadRequest) (slotworker.Model, error) {
	m, err := e.Engine.Load(req)
	return steppedModel{m, e}, err
}

func (m steppedModel) NewContext(cfg slotworker.ContextConfig) (slotworker.Context, error) {
	c, err := m.Model.NewContext(cfg)
	return steppedContext{c, m.engine}, err
}

func (c steppedContext) Decode(rows []slotworker.Row) error {
	if before := c.engine.before.Load(); before != nil {
		(*before)()
	}
	return c.Context.Decode(rows)
}

func newRealSlot(t testing.TB, precision string, transfer shared.Transfer) *realSlot {
	t.Helper()
	return newRealSlotOn(t, engine(t), precision, transfer)
}

func newRealSlotOn(t testing.TB, e slotworker.Engine, precision string, transfer shared.Transfer) *realSlot {
	t.Helper()
	s := &realSlot{t: t, stateDir: t.TempDir(), spec: shared.SlotSpec{
		SlotID: "story", Model: "storyteller", ModelPath: filepath.Join("..", "testdata", "models", "storyteller-"+precision+".gguf"),
		Device: "cpu", Transfer: transfer, ContextTokens: realTokens, Parallel: 1, PageTokens: 64, KVType: "f16",
		PrefillChunk: realChunk, Threads: 1,
	}}
	s.expected = declared(t, s.spec)
	w, err := slotworker.New(slotworker.Config{
		Engine:   func() (slotworker.Engine, error) { return e, nil },
		StateDir: s.stateDir,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Worker = w
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// declared computes the identity as a supervisor does.
func declared(t testing.TB, spec shared.SlotSpec) shared.Identity {
	t.Helper()
	header, err := gguf.ReadFile(spec.ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	model, err := gguf.OpenParts(header.Paths()...)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	digest, err := gguf.Digest(context.Background(), model.Reader(), model.Size, nil)
	if err != nil {
		t.Fatal(err)
	}
	var adapters []string
	for _, a := range spec.Adapters {
		b, err := os.ReadFile(a.Path)
		if err != nil {
			t.Fatal(err)
		}
		adapters = append(adapters, fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
	}
	return header.Identity(digest, spec, adapters...)
}

func (s *realSlot) prefetch() {
	s.t.Helper()
	_, err := s.Prefetch(s.t.Context(), shared.PrefetchRequest{
		Spec: s.spec, Expected: s.expected,
		Plan: shared.PrefetchPlan{SlotID: s.spec.SlotID, HostBufferID: "host-1", TargetDevice: "cpu"},
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *realSlot) activate() (shared.ActivateResult, error) {
	return s.Activate(s.t.Context(), shared.ActivateRequest{Expected: s.expected})
}

func (s *realSlot) prepare() shared.ActivateResult {
	s.t.Helper()
	s.prefetch()
	res, err := s.activate()
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *realSlot) evict(dropHost bool) {
	s.t.Helper()
	if _, err := s.Evict(s.t.Context(), dropHost); err != nil {
		s.t.Fatal(err)
	}
}

type realAnswer struct {
	tokens []int32
	text   string
	result shared.Result
}

func (s *realSlot) generate(req shared.GenerateRequest) realAnswer {
	s.t.Helper()
	req.Identity = s.expected
	var got realAnswer
	var err error
	got.result, err = s.Generate(s.t.Context(), req, func(c shared.Chunk) error {
		got.tokens = append(got.tokens, c.Tokens...)
		got.text += c.Text
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}
