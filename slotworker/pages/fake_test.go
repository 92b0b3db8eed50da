package pages

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/firstframe/firstframe/shared"
)

// testPage is the page size of tests; testLayout has 48 bytes a cell.
const testPage = 4

var testLayout = Layout{Streams: 3, Planes: []Plane{{1, 16}, {1, 8}, {8, 16}, {8, 8}}}

var testIdentity = shared.Identity{
	ModelRevision:     "sha256:model",
	Precision:         "F16",
	TokenizerRevision: "sha256:tokenizer",
	LayoutRevision:    "sha256:layout",
	SlotRevision:      "sha256:slot",
}

// fakeEngine is an engine whose cells are made from the cell before and the
// token: as in a real one, a cell depends on all tokens up to its own, and what
// is computed after a wrong restore is wrong too.
type fakeEngine struct {
	seqs [][][]byte // sequence, position, cell with the rows of all planes

	layout     Layout
	transposed uint32
	unified    bool                           // one stream for all
	spoil      func(e *fakeEngine, seq int32) // runs after each StateSet
	keepsCut   bool                           // SeqRemove refuses to cut
	greedy     bool                           // StateSet takes short blobs
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{layout: testLayout, seqs: make([][][]byte, testLayout.Streams)}
}

func (e *fakeEngine) decode(seq int32, tokens ...int32) []float32 {
	for _, t := range tokens {
		var last []byte
		if n := len(e.seqs[seq]); n > 0 {
			last = e.seqs[seq][n-1]
		}
		h := xxhash.Sum64(binary.LittleEndian.AppendUint32(bytes.Clone(last), uint32(t)))
		cell := make([]byte, 0, e.layout.CellBytes())
		for len(cell) < e.layout.CellBytes() {
			h = h*0x9e3779b97f4a7c15 + 1
			cell = binary.LittleEndian.AppendUint64(cell, h)
		}
		e.seqs[seq] = append(e.seqs[seq], cell[:e.layout.CellBytes()])
	}
	cell := e.seqs[seq][len(e.seqs[seq])-1]
	logits := make([]float32, 4)
	for i := range logits {
		logits[i] = float32(math.Mod(float64(binary.LittleEndian.Uint32(cell[4*i:])), 97))
	}
	return logits
}

func (e *fakeEngine) SeqTokens(seq int32) int { return len(e.seqs[seq]) }

func (e *fakeEngine) SeqRemove(seq, from, to int32) bool {
	if from > 0 && e.keepsCut {
		return false
	}
	if int(from) < len(e.seqs[seq]) {
		e.seqs[seq] = e.seqs[seq][:from]
	}
	return to < 0
}

func (e *fakeEngine) StateSize(seq int32) int { return len(e.state(seq)) }

func (e *fakeEngine) StateGet(seq int32, dst []byte) int {
	return copy(dst, e.state(seq))
}

// state writes the blob by itself, so that Join is not tested against itself.
func (e *fakeEngine) state(seq int32) []byte {
	u32 := func(b []byte, v int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }
	streams := e.seqs
	if e.unified {
		streams = e.seqs[seq : seq+1]
	}
	b := u32(u32(u32(nil, stateMagic), int(seq)), len(streams))
	for s, cells := range streams {
		if !e.unified && s != int(seq) || len(cells) == 0 {
			b = u32(b, 0)
			continue
		}
		b = u32(b, len(cells))
		for pos := range cells {
			b = u32(u32(u32(b, pos), 1), int(seq))
		}
		b = u32(u32(b, int(e.transposed)), len(e.layout.Planes)/2)
		at := 0
		for _, p := range e.layout.Planes {
			b = binary.LittleEndian.AppendUint64(u32(b, int(p.Type)), uint64(p.Row))
			for _, cell := range cells {
				b = append(b, cell[at:at+p.Row]...)
			}
			at += p.Row
		}
	}
	return b
}

func (e *fakeEngine) StateSet(seq int32, src []byte) int {
	st, err := ParseState(src)
	if err != nil {
		if e.greedy {
			return len(src)
		}
		return 0
	}
	cells := make([][]byte, st.Cells)
	for i := range cells {
		cell := make([]byte, e.layout.CellBytes())
		if err := st.Cut(i, i+1, cell); err != nil {
			return 0
		}
		cells[i] = cell
	}
	e.seqs[seq] = cells
	if e.spoil != nil {
		e.spoil(e, seq)
	}
	return len(src)
}

// seq makes tokens 100·group, 100·group+1, …
func seq(group, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(100*group + i)
	}
	return tokens
}

func join(parts ...[]int32) []int32 {
	var all []int32
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// heapMemory counts what is mapped.
type heapMemory struct {
	mu     sync.Mutex
	mapped int
	fail   bool
}

func (m *heapMemory) Map(n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail {
		return nil, errors.New("out of memory")
	}
	m.mapped += n
	return make([]byte, n), nil
}

func (m *heapMemory) Unmap(b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mapped -= len(b)
	return nil
}

// rig is a store with what a test needs around it.
type rig struct {
	*testing.T
	*Store
	dir    string
	errors func() []error
}

func testConfig(dir string) Config {
	return Config{
		Identity: testIdentity, PageTokens: testPage, Layout: testLayout,
		HostBytes: 1 << 20, Memory: &heapMemory{}, SlabBytes: 4096,
		Dir: dir, DiskBytes: 1 << 20,
	}
}

// open opens a store that is closed with the test.
func open(t *testing.T, cfg Config) *rig {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	if cfg.OnError == nil {
		cfg.OnError = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, Store: s, dir: cfg.Dir, errors: func() []error {
		mu.Lock()
		defer mu.Unlock()
		return errs
	}}
	t.Cleanup(r.close)
	<-s.Scanned()
	return r
}

func (r *rig) close() {
	r.Helper()
	if err := r.Close(context.Background()); err != nil {
		r.Error(err)
	}
}

func (r *rig) flush() {
	r.Helper()
	if err := r.Flush(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// state computes tokens cold and takes the state.
func state(t testing.TB, tokens []int32) State {
	t.Helper()
	e := newFakeEngine()
	e.decode(1, tokens...)
	st, err := ParseState(e.state(1))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// save stores all pages of a prompt.
func (r *rig) save(tokens []int32, salt string) int {
	r.Helper()
	n, err := r.Save(Save{Prompt: r.NewPrompt(tokens), Salt: salt, State: state(r, tokens), Tail: true})
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// use looks a prompt up as a request would, restores the pages, checks that they
// hold what a cold run computes, and returns the plan, which is released.
func (r *rig) use(tokens []int32, salt string) *Plan {
	r.Helper()
	p := r.plan(tokens, salt)
	r.check(p, tokens)
	r.Release(p, Used)
	return p
}

func (r *rig) plan(tokens []int32, salt string) *Plan {
	p := r.Lookup(Query{Prompt: r.NewPrompt(tokens), Salt: salt})
	r.Load(r.Context(), p)
	return p
}

func (r *rig) check(p *Plan, tokens []int32) {
	r.Helper()
	if p.Tokens == 0 {
		if n := len(p.Pieces()); n != 0 {
			r.Fatalf("%d pieces for no tokens", n)
		}
		return
	}
	if p.Tokens >= len(tokens) {
		r.Fatalf("a plan of %d tokens leaves nothing of %d to compute", p.Tokens, len(tokens))
	}
	blob, err := r.cfg.Layout.Join(nil, 2, p.Pieces())
	if err != nil {
		r.Fatal(err)
	}
	cold := newFakeEngine()
	cold.decode(2, tokens[:p.Tokens]...)
	if !bytes.Equal(blob, cold.state(2)) {
		r.Fatalf("the pages of %v restore another state than a cold run", tokens)
	}
}

func (r *rig) want(p *Plan, tokens int, reason Reason, diverged int) {
	r.Helper()
	if p.Tokens != tokens || p.Reason != reason || p.DivergedAt != diverged {
		r.Fatalf("plan restores %d tokens, reason %q, diverged at %d; want %d, %q, %d",
			p.Tokens, p.Reason, p.DivergedAt, tokens, reason, diverged)
	}
}

// files lists the page files of a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+pageSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// quarantined lists the reasons of the files that were set aside.
func quarantined(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, quarantineDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range all {
		all[i] = strings.TrimPrefix(filepath.Ext(f), ".")
	}
	return all
}

// age makes every file look as if it was last used long ago, the first listed
// before the others.
func age(t testing.TB, names []string) {
	t.Helper()
	for i, n := range names {
		at := time.Now().Add(-time.Hour + time.Duration(i)*time.Minute)
		if err := os.Chtimes(n, at, at); err != nil {
			t.Fatal(err)
		}
	}
}
