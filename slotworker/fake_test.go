package slotworker

import (
	"encoding/binary"
	"errors"
	"fmt"
	mathbits "math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Tokens of the fake model: one per byte, and two special ones.
const (
	fakeBOS   = 256
	fakeEOS   = 257
	fakeVocab = 258
)

// fakeEngine is a deterministic model: the next token is a function of all
// tokens before it in the sequence. Hooks let tests slow it down and break it.
type fakeEngine struct {
	info     ModelInfo
	loadHook func(LoadRequest) error
	model    fakeModel
}

func (e *fakeEngine) Info() EngineInfo {
	return EngineInfo{Version: shared.EngineVersion, CPUVariant: "fake"}
}

func (e *fakeEngine) Load(req LoadRequest) (Model, error) {
	if e.loadHook != nil {
		if err := e.loadHook(req); err != nil {
			return nil, err
		}
	}
	if req.Progress != nil && !req.Progress(1) {
		return nil, errors.New("the load was ended")
	}
	e.model.info = e.info
	e.model.open.Add(1)
	return &e.model, nil
}

type fakeModel struct {
	info  ModelInfo
	open  atomic.Int64 // models and contexts that were not closed
	bos   int32        // instead of fakeBOS
	piece func(token int32) []byte
	// answer overrides what the model says after the given tokens.
	answer func(tokens []int32) int32

	tokenizeHook func(text string)
	contextHook  func() error
	decodeHook   func(rows []Row) error
	sampleHook   func(tokens []int32)
	tokensHook   func()           // in SeqTokens, which a bind calls
	removeHook   func(int32) bool // false: the sequence cannot be cut
	restoreHook  func(int) int    // how many bytes of a state are taken
	forget       bool             // the next count of tokens loses one
	embedHook    func(tokens []int32) []float32

	samplers atomic.Int64 // samplers that were not closed
}

func (m *fakeModel) Info() ModelInfo { return m.info }

func (m *fakeModel) Tokenize(text string, addSpecial, _ bool) ([]int32, error) {
	if m.tokenizeHook != nil {
		m.tokenizeHook(text)
	}
	var tokens []int32
	if addSpecial {
		tokens = append(tokens, fakeBOS)
	}
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens, nil
}

func (m *fakeModel) Piece(token int32, special bool) []byte {
	switch {
	case m.piece != nil:
		return m.piece(token)
	case token < 256:
		return []byte{byte(token)}
	case special && token == fakeBOS:
		return []byte("<s>")
	case special:
		return []byte("</s>")
	default:
		return nil
	}
}

func (m *fakeModel) IsEOG(token int32) bool { return token == fakeEOS }
func (m *fakeModel) BOS() int32 {
	if m.bos != 0 {
		return m.bos
	}
	return fakeBOS
}
func (m *fakeModel) EOS() int32 { return fakeEOS }

func (m *fakeModel) NewSampler(s shared.Sampling, _ []int32) (Sampler, error) {
	if s.TopK < 0 {
		return nil, invalid("top_k", "top_k cannot be negative")
	}
	m.samplers.Add(1)
	return &fakeSampler{model: m}, nil
}

func (m *fakeModel) Close() { m.open.Add(-1) }

func (m *fakeModel) NewContext(cfg ContextConfig) (Context, error) {
	if m.contextHook != nil {
		if err := m.contextHook(); err != nil {
			return nil, err
		}
	}
	m.open.Add(1)
	return &fakeContext{model: m, cfg: cfg, seqs: make([][]int32, cfg.Sequences)}, nil
}

// next is the fake model's greedy token: a lower-case letter, as a hash decides.
func (m *fakeModel) next(tokens []int32) int32 {
	if m.answer != nil {
		return m.answer(tokens)
	}
	hash := uint32(2166136261)
	for _, t := range tokens {
		hash = (hash ^ uint32(t)) * 16777619
	}
	return 'a' + int32(hash%26)
}

// solo is what the model answers to a prompt when nothing else runs.
func (m *fakeModel) solo(prompt []int32, n int) []int32 {
	tokens := slices.Clone(prompt)
	for range n {
		tokens = append(tokens, m.next(tokens))
	}
	return tokens[len(prompt):]
}

type fakeSampler struct {
	model  *fakeModel
	closed bool
}

func (*fakeSampler) Accept(int32) {}

func (s *fakeSampler) Close() {
	if s.closed {
		panic("a sampler was closed twice")
	}
	s.closed = true
	s.model.samplers.Add(-1)
}

// fakeContext checks what the contract of Context demands and panics when it is broken.
type fakeContext struct {
	model  *fakeModel
	cfg    ContextConfig
	mu     sync.Mutex // held by the one goroutine that may be in here
	seqs   [][]int32
	rows   []Row
	ends   [][]int32 // tokens up to each row of the last batch
	closed bool
}

func (c *fakeContext) enter() func() {
	if !c.mu.TryLock() {
		panic("two goroutines use one context")
	}
	if c.closed {
		panic("a closed context is used")
	}
	return c.mu.Unlock
}

func (c *fakeContext) Decode(rows []Row) error {
	defer c.enter()()
	if len(rows) == 0 || len(rows) > c.cfg.BatchTokens {
		panic(fmt.Sprintf("a batch of %d rows, at most %d fit", len(rows), c.cfg.BatchTokens))
	}
	if c.model.decodeHook != nil {
		if err := c.model.decodeHook(rows); err != nil {
			return err
		}
	}
	c.rows, c.ends = slices.Clone(rows), make([][]int32, len(rows))
	for i, r := range rows {
		if int(r.Pos) != len(c.seqs[r.Seq]) {
			panic(fmt.Sprintf("sequence %d has %d tokens, a row is for position %d", r.Seq, len(c.seqs[r.Seq]), r.Pos))
		}
		if len(c.seqs[r.Seq]) == c.cfg.TokensPerSequence {
			panic("a sequence is longer than its context")
		}
		c.seqs[r.Seq] = append(c.seqs[r.Seq], r.Token)
		c.ends[i] = slices.Clone(c.seqs[r.Seq])
	}
	return nil
}

func (c *fakeContext) Sample(s Sampler, row int) int32 {
	defer c.enter()()
	if s.(*fakeSampler).closed {
		panic("a closed sampler is used")
	}
	if !c.rows[row].Logits {
		panic("a row without logits is sampled")
	}
	if c.model.sampleHook != nil {
		c.model.sampleHook(c.ends[row])
	}
	return c.model.next(c.ends[row])
}

func (c *fakeContext) SampleAmong(s Sampler, row int, may Allowed) int32 {
	if token := c.Sample(s, row); may.Allows(token) {
		return token
	}
	for i, bits := range may.Mask() {
		if bits != 0 {
			return int32(64*i + mathbits.TrailingZeros64(bits))
		}
	}
	return -1
}

// Embedding is a vector that tells the token and its place.
func (c *fakeContext) Embedding(row int) []float32 {
	defer c.enter()()
	if c.model.embedHook != nil {
		return c.model.embedHook(c.ends[row])
	}
	if !c.cfg.Embeddings {
		return nil
	}
	return []float32{float32(c.rows[row].Token), float32(c.rows[row].Pos), 1}
}

// Logits say which token comes next.
func (c *fakeContext) Logits(row int) []float32 {
	logits := make([]float32, fakeVocab)
	logits[c.model.next(c.ends[row])] = 1
	return logits
}

func (c *fakeContext) SeqRemove(seq, from, to int32) bool {
	defer c.enter()()
	if c.model.removeHook != nil && !c.model.removeHook(seq) {
		return false
	}
	if to >= 0 {
		panic("the fake removes to the end only")
	}
	c.seqs[seq] = c.seqs[seq][:from]
	return true
}

func (c *fakeContext) SeqTokens(seq int32) int {
	defer c.enter()()
	if c.model.tokensHook != nil {
		c.model.tokensHook()
	}
	if n := len(c.seqs[seq]); c.model.forget && n > 0 {
		c.model.forget = false
		c.seqs[seq] = c.seqs[seq][:n-1]
	}
	return len(c.seqs[seq])
}

func (c *fakeContext) StateSize(seq int32) int { return len(c.state(seq)) }

func (c *fakeContext) StateGet(seq int32, dst []byte) int {
	defer c.enter()()
	return copy(dst, c.state(seq))
}

// state is in the engine's form, with one layer: its keys are the tokens, its
// values their complements.
func (c *fakeContext) state(seq int32) []byte {
	le, tokens := binary.LittleEndian, c.seqs[seq]
	b := le.AppendUint32(nil, 0xaf143cd8)
	b = le.AppendUint32(b, uint32(seq))
	b = le.AppendUint32(b, uint32(len(c.seqs)))
	for stream := range c.seqs {
		if stream != int(seq) || len(tokens) == 0 {
			b = le.AppendUint32(b, 0)
			continue
		}
		b = le.AppendUint32(b, uint32(len(tokens)))
		for i := range tokens {
			b = le.AppendUint32(b, uint32(i))
			b = le.AppendUint32(b, 1)
			b = le.AppendUint32(b, uint32(seq))
		}
		b = le.AppendUint64(b, 1<<32) // not transposed, one layer
		for _, mask := range []int32{0, -1} {
			b = le.AppendUint32(b, 26)
			b = le.AppendUint64(b, 4)
			for _, t := range tokens {
				b = le.AppendUint32(b, uint32(t^mask))
			}
		}
	}
	return b
}

func (c *fakeContext) StateSet(seq int32, src []byte) int {
	defer c.enter()()
	if c.model.restoreHook != nil {
		src = src[:c.model.restoreHook(len(src))]
	}
	c.seqs[seq] = nil
	head := 12 + 4*(int(seq)+1)
	if len(src) < head {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(src[head-4:]))
	whole := 12 + 4*len(c.seqs) + n*12 + 8 + 2*(12+4*n)
	if len(src) != whole {
		return 0
	}
	at := head + n*12 + 8 + 12
	for i := range n {
		t := int32(binary.LittleEndian.Uint32(src[at+4*i:]))
		if ^t != int32(binary.LittleEndian.Uint32(src[at+4*n+12+4*i:])) {
			panic("keys and values of a restored state are of other tokens")
		}
		c.seqs[seq] = append(c.seqs[seq], t)
	}
	return len(src)
}

func (c *fakeContext) DeviceBytes() int64 { return 1 << 20 }
func (c *fakeContext) HostBytes() int64   { return 0 }

func (c *fakeContext) Close() {
	defer c.enter()()
	c.closed = true
	c.model.open.Add(-1)
}

// wait gives what the channel gives, and fails the test when that takes too long.
func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came in 20 s")
		panic("unreachable")
	}
}

// eventually waits for something that another goroutine is about to do.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it did not happen in 20 s")
		}
	}
}
