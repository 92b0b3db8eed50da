package pages_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
	"github.com/firstframe/firstframe/slotworker/llamacpp"
	"github.com/firstframe/firstframe/slotworker/pages"
)

const enginePage = 64

// bench is a context of the real engine and the stores of its pages, by whether
// they are exact. They share a directory.
type bench struct {
	*testing.T
	ctx    slotworker.Context
	vocab  int
	layout pages.Layout
	dir    string
	hasher pages.Hasher
	stores map[bool]*pages.Store
	blob   []byte
}

func newBench(t *testing.T, engine slotworker.Engine, model string, cfg slotworker.ContextConfig) *bench {
	m, err := engine.Load(slotworker.LoadRequest{Path: filepath.Join("..", "..", "testdata", "models", model)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	c, err := m.NewContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &bench{T: t, ctx: c, vocab: m.Info().Vocab, dir: t.TempDir(), stores: map[bool]*pages.Store{}}
	b.layout, err = pages.Prove(b.probe(0, int32(cfg.Sequences-1)))
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bench) open() {
	b.Helper()
	for _, exact := range []bool{true, false} {
		s, err := pages.Open(pages.Config{
			Identity:   shared.Identity{ModelRevision: "m", Precision: "p", TokenizerRevision: "t", LayoutRevision: "l", SlotRevision: "s"},
			PageTokens: enginePage, Exact: exact, Layout: b.layout, HostBytes: 64 << 20, Dir: b.dir, DiskBytes: 1 << 30,
			Hasher: b.hasher,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.stores[exact] = s
	}
}

func (b *bench) close() {
	b.Helper()
	for _, s := range b.stores {
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

// restart leaves nothing but what is on disk.
func (b *bench) restart() {
	b.Helper()
	b.close()
	b.open()
}

func (b *bench) probe(from, to int32) pages.Probe {
	return pages.Probe{
		IO: b.ctx, From: from, To: to,
		Fill: func(seq int32, n int) error {
			_, err := b.decode(seq, 0, random(rand.New(rand.NewPCG(1, 1)), n, b.vocab))
			return err
		},
		Next: func(seq int32, pos int) ([]float32, error) { return b.decode(seq, pos, []int32{5}) },
	}
}

func random(rnd *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(3 + rnd.IntN(vocab-3))
	}
	return tokens
}

func (b *bench) decode(seq int32, pos int, tokens []int32) ([]float32, error) {
	rows := make([]slotworker.Row, len(tokens))
	for i, t := range tokens {
		rows[i] = slotworker.Row{Token: t, Pos: int32(pos + i), Seq: seq, Logits: i == len(tokens)-1}
	}
	if err := b.ctx.Decode(rows); err != nil {
		return nil, err
	}
	return slices.Clone(b.ctx.Logits(len(rows) - 1)), nil
}

// prefill computes a prompt from a position on, in whole pages and a tail.
func (b *bench) prefill(seq int32, tokens []int32, from int) (logits []float32) {
	b.Helper()
	for at := from; at < len(tokens); at = min(len(tokens), (at/enginePage+1)*enginePage) {
		var err error
		if logits, err = b.decode(seq, at, tokens[at:min(len(tokens), (at/enginePage+1)*enginePage)]); err != nil {
			b.Fatal(err)
		}
	}
	return logits
}

func (b *bench) save(seq int32, tokens []int32) {
	b.Helper()
	n := b.ctx.StateSize(seq)
	b.blob = slices.Grow(b.blob[:0], n)[:n]
	if got := b.ctx.StateGet(seq, b.blob); got != n {
		b.Fatalf("the engine wrote %d of %d bytes", got, n)
	}
	st, err := pages.ParseState(b.blob)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range b.stores {
		if _, err := s.Save(pages.Save{Prompt: s.NewPrompt(tokens), State: st, Tail: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// reuse answers a prompt with pages, as a scheduler would.
func (b *bench) reuse(seq int32, tokens []int32, exact bool) (logits []float32, plan *pages.Plan) {
	b.Helper()
	b.ctx.SeqRemove(seq, 0, -1)
	s := b.stores[exact]
	plan = s.Lookup(pages.Query{Prompt: s.NewPrompt(tokens)})
	if plan.More {
		s.Load(b.Context(), plan)
	}
	if plan.Tokens > 0 {
		blob, err := b.layout.Join(b.blob, int(seq), plan.Pieces())
		if err != nil {
			b.Fatal(err)
		}
		b.blob = blob
		if n := b.ctx.StateSet(seq, blob); n != len(blob) || b.ctx.SeqTokens(seq) != plan.Tokens {
			b.Fatalf("the engine took %d of %d bytes and has %d of %d tokens", n, len(blob), b.ctx.SeqTokens(seq), plan.Tokens)
		}
	}
	s.Release(plan, pages.Used)
	return b.prefill(seq, tokens, plan.Tokens), plan
}

// Pages of the real engine, from host memory and from disk, give the logits of a
// cold run to the bit in every precision; with a page of another prompt they do not.
func TestRealEngine(t *testing.T) {
	engine, err := llamacpp.Open(enginetest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model     string
		sequences int
		kv        string
	}{
		{"storyteller-f16.gguf", 3, "f16"},
		{"storyteller-q8_0.gguf", 3, "f16"},
		{"storyteller-q4_0.gguf", 3, "q8_0"},
		{"storyteller-q8_0.gguf", 1, "f16"},
	} {
		t.Run(fmt.Sprintf("%s, %d sequences, %s", c.model, c.sequences, c.kv), func(t *testing.T) {
			b := newBench(t, engine, c.model, slotworker.ContextConfig{
				TokensPerSequence: 512, Sequences: c.sequences, BatchTokens: 128, Threads: 1, KVType: c.kv})
			b.logitsOfAColdRun(c.sequences)
			b.foreignPagesShow()
			b.equalHashesMiss()
		})
	}
}

func (b *bench) logitsOfAColdRun(sequences int) {
	b.Helper()
	rnd := rand.New(rand.NewPCG(7, 7))
	trunks := [][]int32{random(rnd, 300, b.vocab), random(rnd, 300, b.vocab)}
	var prompts [][]int32
	var cold [][]float32
	for range 8 {
		trunk := trunks[rnd.IntN(len(trunks))]
		tokens := slices.Concat(trunk[:rnd.IntN(len(trunk))], random(rnd, 1+rnd.IntN(100), b.vocab))
		b.ctx.SeqRemove(0, 0, -1)
		prompts = append(prompts, tokens)
		cold = append(cold, b.prefill(0, tokens, 0))
		b.save(0, tokens)
	}
	for _, tier := range []string{"host", "disk", "host again"} {
		if tier == "disk" {
			b.restart()
		}
		for i, tokens := range prompts {
			seq := int32(rnd.IntN(sequences))
			logits, plan := b.reuse(seq, tokens, true)
			if want := (len(tokens) - 1) / enginePage * enginePage; plan.Tokens != want {
				b.Errorf("%s, prompt %d: %d tokens were restored instead of %d", tier, i, plan.Tokens, want)
			}
			if !slices.Equal(logits, cold[i]) {
				b.Errorf("%s, prompt %d: the logits are not those of the cold run", tier, i)
			}
			if _, plan := b.reuse(seq, tokens, false); plan.Tokens != len(tokens)-1 || plan.Reason != "" {
				b.Errorf("%s, prompt %d: %d of %d tokens were restored, %q", tier, i, plan.Tokens, len(tokens), plan.Reason)
			}
		}
	}
}

// foreignPagesShow makes sure that the comparison above would notice a page of
// another prompt. Two pages of one prompt that change places would be no test:
// attention adds up cells in any order, so that only rounding tells.
func (b *bench) foreignPagesShow() {
	b.Helper()
	rnd := rand.New(rand.NewPCG(9, 9))
	tokens, other := random(rnd, 200, b.vocab), random(rnd, 200, b.vocab)
	var cold []float32
	var plans []*pages.Plan
	s := b.stores[true]
	for _, p := range [][]int32{other, tokens} {
		b.ctx.SeqRemove(0, 0, -1)
		cold = b.prefill(0, p, 0)
		b.save(0, p)
		plan := s.Lookup(pages.Query{Prompt: s.NewPrompt(p)})
		defer s.Release(plan, pages.Used)
		plans = append(plans, plan)
	}
	pieces := plans[1].Pieces()
	pieces[1] = plans[0].Pieces()[1]
	blob, err := b.layout.Join(nil, 0, pieces)
	if err != nil {
		b.Fatal(err)
	}
	if n := b.ctx.StateSet(0, blob); n != len(blob) {
		b.Fatalf("the engine took %d of %d bytes", n, len(blob))
	}
	if slices.Equal(b.prefill(0, tokens, plans[1].Tokens), cold) {
		b.Error("a page of another prompt made no difference")
	}
}

// equalHashesMiss lets all hashes be equal: the pages of one prompt are then found
// for another one, and are not used.
func (b *bench) equalHashesMiss() {
	b.Helper()
	b.dir = b.TempDir()
	b.hasher = func(pages.Hash, []int32) pages.Hash { return pages.Hash{1} }
	b.restart()
	rnd := rand.New(rand.NewPCG(11, 9))
	tokens, other := random(rnd, 100, b.vocab), random(rnd, 100, b.vocab)
	b.ctx.SeqRemove(0, 0, -1)
	b.prefill(0, other, 0)
	fast := b.stores[false] // its file would have the same name
	delete(b.stores, false)
	b.save(0, other)
	b.stores[false] = fast
	b.ctx.SeqRemove(0, 0, -1)
	cold := b.prefill(0, tokens, 0)
	s := b.stores[true]
	plan := s.Lookup(pages.Query{Prompt: s.NewPrompt(tokens)})
	if plan.Tokens != 0 || plan.Reason != pages.ReasonTokenMismatch {
		b.Errorf("in memory: %d tokens were found, reason %q", plan.Tokens, plan.Reason)
	}
	s.Release(plan, pages.Unused)
	b.restart()
	logits, plan := b.reuse(0, tokens, true)
	if plan.Tokens != 0 || plan.Reason != pages.ReasonTokenMismatch || !slices.Equal(logits, cold) {
		b.Errorf("on disk: %d tokens were restored, reason %q, logits of a cold run: %v", plan.Tokens, plan.Reason, slices.Equal(logits, cold))
	}
}
