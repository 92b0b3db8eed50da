package llamacpp

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/enginelib/enginetest"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// opened is the process's one engine.
var opened struct {
	once   sync.Once
	engine *Engine
	err    error
}

func engine(t testing.TB) *Engine {
	t.Helper()
	dir := enginetest.Dir(t)
	opened.once.Do(func() { opened.engine, opened.err = Open(dir) })
	if opened.err != nil {
		t.Fatal(opened.err)
	}
	return opened.engine
}

func modelPath(precision string) string {
	return filepath.Join("..", "..", "testdata", "models", "storyteller-"+precision+".gguf")
}

func modelBytes(t testing.TB, precision string) []byte {
	t.Helper()
	data, err := os.ReadFile(modelPath(precision))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func load(t testing.TB, req slotworker.LoadRequest) *Model {
	t.Helper()
	m, err := engine(t).Load(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m.(*Model)
}

func loadPath(t testing.TB, precision string) *Model {
	t.Helper()
	return load(t, slotworker.LoadRequest{Path: modelPath(precision)})
}

func loadBytes(t testing.TB, data []byte) *Model {
	t.Helper()
	return load(t, slotworker.LoadRequest{Bytes: data})
}

// small is a context with one thread: on a busy machine several wait for each
// other at every operation of a step.
func small() slotworker.ContextConfig {
	return slotworker.ContextConfig{TokensPerSequence: 512, Sequences: 2, BatchTokens: 128, Threads: 1, KVType: "f16"}
}

func newContext(t testing.TB, m *Model, cfg slotworker.ContextConfig) *Context {
	t.Helper()
	c, err := m.NewContext(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.(*Context)
}

const fox = "<s><|user|>Tell me a story about a fox.<|end|><|assistant|>"

func tokenize(t testing.TB, m *Model, text string) []int32 {
	t.Helper()
	tokens, err := m.Tokenize(text, false, true)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// run is rows for tokens from a position on; the last one wants logits.
func run(seq, pos int32, tokens ...int32) []slotworker.Row {
	rows := make([]slotworker.Row, len(tokens))
	for i, token := range tokens {
		rows[i] = slotworker.Row{Token: token, Pos: pos + int32(i), Seq: seq, Logits: i == len(tokens)-1}
	}
	return rows
}

func decode(t testing.TB, c *Context, rows []slotworker.Row) {
	t.Helper()
	if err := c.Decode(rows); err != nil {
		t.Fatal(err)
	}
}

// last is a copy of the logits of the last row.
func last(t testing.TB, c *Context, rows []slotworker.Row) []float32 {
	t.Helper()
	decode(t, c, rows)
	logits := c.Logits(len(rows) - 1)
	if logits == nil {
		t.Fatal("no logits")
	}
	return slices.Clone(logits)
}

func best(logits []float32) int32 {
	at := 0
	for i, v := range logits {
		if v > logits[at] {
			at = i
		}
	}
	return int32(at)
}

// greedy feeds the prompt and n tokens after it, and gives the tokens and all
// logits that they were chosen from.
func greedy(t testing.TB, c *Context, seq int32, prompt []int32, n int) (tokens []int32, logits [][]float32) {
	t.Helper()
	rows := run(seq, 0, prompt...)
	for len(tokens) < n {
		l := last(t, c, rows)
		logits = append(logits, l)
		token := best(l)
		tokens = append(tokens, token)
		if c.model.IsEOG(token) {
			break
		}
		rows = run(seq, int32(len(prompt)+len(tokens)-1), token)
	}
	return tokens, logits
}

func text(m *Model, tokens []int32) string {
	var out []byte
	for _, token := range tokens {
		out = append(out, m.Piece(token, false)...)
	}
	return string(out)
}

// furthest is the largest difference of two logits.
func furthest(a, b []float32) float32 {
	var d float32
	for i := range a {
		d = max(d, a[i]-b[i], b[i]-a[i])
	}
	return d
}
