package llamacpp

import (
	"context"
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
	swap   atomic.Bool // the first two pages of what is restored
	mu     sync.Mutex
	logits [][]float32 // since the last take
}

func (e *recorded) take() [][]float32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.logits
	e.logits = nil
	return l
}

type recordedModel struct {
	slotworker.Model
	engine *recorded
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

func (c *recordedContext) Sample(s slotworker.Sampler, row int) int32 {
	logits := slices.Clone(c.Logits(row))
	c.engine.mu.Lock()
	c.engine.logits = append(c.engine.logits, logits)
	c.engine.mu.Unlock()
	return c.Context.Sample(s, row)
}

// StateSet swaps two pages on the way in when the test wants that.
func (c *recordedContext) StateSet(seq int32, src []byte) int {
	st, err := pages.ParseState(src)
	if err != nil || st.Cells < 128 || !c.engine.swap.Load() {
		return c.Context.StateSet(seq, src)
	}
	var pieces []pages.Piece
	for _, cut := range [][2]int{{64, 128}, {0, 64}, {128, st.Cells}} {
		if n := cut[1] - cut[0]; n > 0 {
			p := pages.Piece{Payload: make([]byte, n*st.Layout.CellBytes()), Cells: n, Use: n}
			if err := st.Cut(cut[0], cut[1], p.Payload); err != nil {
				return 0
			}
			pieces = append(pieces, p)
		}
	}
	swapped, err := st.Layout.Join(nil, int(seq), pieces)
	if err != nil {
		return 0
	}
	return c.Context.StateSet(seq, swapped)
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
	spec.SlotID, spec.Device, spec.Transfer, spec.KVType, spec.Threads = "story", "cpu", shared.TransferMmap, "f16", 1
	s := &pageSlot{t: t, engine: &recorded{Engine: engine(t)}, spec: spec}
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
	s.identity = header.Identity(digest, spec)
	s.Worker, err = slotworker.New(slotworker.Config{
		Engine: func() (slotworker.Engine, error) { return s.engine, nil }, StateDir: dir, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.prepare()
	return s
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

// prompts share prefixes of random lengths.
func prompts(random *rand.Rand, n int) [][]int32 {
	var list [][]int32
	for range n {
		var p []int32
		if len(list) > 0 && random.IntN(4) > 0 {
			p = list[random.IntN(len(list))]
			p = p[:1+random.IntN(len(p))]
		}
		list = append(list, append(slices.Clone(p), noise(random, 1+random.IntN(min(150, 480-len(p))))...))
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

// With exact reuse a hit gives the logits of a cold run to the bit, from host
// memory, and from disk in another process.
func TestExactReuseIsBitIdentical(t *testing.T) {
	for _, precision := range []string{"q8_0", "f16", "q4_0"} {
		t.Run(precision, func(t *testing.T) {
			list := prompts(rand.New(rand.NewPCG(3, 4)), 200)
			spec := pageSpec(precision, shared.ReuseExact)
			spec.PagesDisk = 1 << 30
			dir := t.TempDir()
			cfg := small()
			cfg.Sequences, cfg.BatchTokens = 1, 129
			reference := newContext(t, loadPath(t, precision), cfg)
			var want [][][]float32
			for round, tier := range []string{"host", "disk"} {
				s := newPageSlot(t, dir, spec)
				for i, p := range list {
					if round == 0 {
						_, logits := cold(t, reference, p, 3)
						want = append(want, logits)
					}
					_, got, res := s.must(p, 3)
					if !same(got, want[i]) {
						t.Fatalf("%s, prompt %d of %d tokens, %d cached: logits differ by %v", tier, i, len(p), res.Usage.CachedTokens, furthest(got[0], want[i][0]))
					}
				}
				st := s.stats().Pages
				if tier == "host" && st.HitHostTokens < 5000 || tier == "disk" && st.HitDiskTokens < 2000 {
					t.Errorf("%s: pages were hardly used: %+v", tier, st)
				}
				if round == 1 {
					s.engine.swap.Store(true)
					for i, p := range list {
						if _, got, res := s.must(p, 1); res.Usage.CachedTokens >= 128 && same(got, want[i][:1]) {
							t.Errorf("two pages of prompt %d were swapped and nothing changed", i)
						}
					}
				}
				s.end()
			}
		})
	}
}

// The default recomputes one token and stays within the tolerance.
func TestFastReuse(t *testing.T) {
	for _, precision := range []string{"q8_0", "f16", "q4_0"} {
		t.Run(precision, func(t *testing.T) {
			s := newPageSlot(t, t.TempDir(), pageSpec(precision, shared.ReuseFast))
			defer s.end()
			random := rand.New(rand.NewPCG(5, 6))
			prompt := noise(random, 300)
			answer, want, res := s.must(prompt, 20)
			if off := s.stats().Pages.Off; off != "" {
				t.Fatal(off)
			}
			if res.Usage.CachedTokens != 0 || res.MissReason != "token_hash" {
				t.Errorf("cold: %+v", res)
			}
			again, got, res := s.must(prompt, 20)
			if res.Usage.CachedTokens != 299 || res.MissReason != "" || len(again) != 20 {
				t.Errorf("hit: %+v", res)
			}
			if d := furthest(got[0], want[0]); d > tolerance {
				t.Errorf("logits differ by %v", d)
			}
			_, _, res = s.must(slices.Concat(prompt, answer, noise(random, 30)), 2)
			if res.Usage.CachedTokens != 319 {
				t.Errorf("the next turn: %+v", res)
			}
			other := slices.Concat(prompt[:100], noise(random, 50))
			_, _, res = s.must(other, 2)
			if res.Usage.CachedTokens != 64 || res.DivergedAtToken != 100 {
				t.Errorf("another end: %+v", res)
			}
			st := s.stats()
			if st.Pages.PrefilledTokens != 300+1+31+86 || st.KVTokensUsed != 0 || st.Pages.Host.Pages == 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Pages move down with an eviction and with a drain, and are found again.
func TestPagesMoveToDisk(t *testing.T) {
	dir := t.TempDir()
	spec := pageSpec("q8_0", shared.ReuseFast)
	spec.PagesDisk = 64 << 20
	s := newPageSlot(t, dir, spec)
	prompt := noise(rand.New(rand.NewPCG(7, 8)), 300)
	s.must(prompt, 4)
	if _, err := s.Evict(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.prepare()
	_, _, res := s.must(prompt, 4)
	if st := s.stats().Pages; res.Usage.CachedTokens != 299 || st.HitHostTokens != 299 || st.Disk.Pages == 0 {
		t.Errorf("after the eviction: %+v, %+v", res, st)
	}
	if _, err := s.Evict(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if st := s.stats(); st.Pages.Host.Pages != 0 || st.HostBytes != 0 {
		t.Errorf("without a host buffer: %+v", st)
	}
	s.prepare()
	_, _, res = s.must(prompt, 4)
	if st := s.stats().Pages; res.Usage.CachedTokens != 299 || st.HitDiskTokens != 299 {
		t.Errorf("after the eviction of the host buffer: %+v, %+v", res, st)
	}
	second := noise(rand.New(rand.NewPCG(9, 8)), 200)
	s.must(second, 4)
	if _, err := s.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	// Nothing but the drain happened to the first worker when another one comes.
	other := newPageSlot(t, dir, spec)
	if _, _, res := other.must(second, 4); res.Usage.CachedTokens != 199 {
		t.Errorf("after the drain: %+v", res)
	}
	other.end()
	s.end()

	for name, change := range map[string]func(b []byte) []byte{
		"flipped": func(b []byte) []byte { b[len(b)-5] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:len(b)-9] },
	} {
		files := pageFiles(t, filepath.Join(dir, "pages"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := newPageSlot(t, dir, spec)
		want, _, res := s.must(prompt, 4)
		// A file that is too short may have been set aside before anybody asked.
		if res.Usage.CachedTokens != 0 || res.MissReason != "checksum" && name != "cut" {
			t.Errorf("%s: %+v", name, res)
		}
		if got, _, res := s.must(prompt, 4); res.Usage.CachedTokens != 299 || !slices.Equal(got, want) {
			t.Errorf("%s, again: %v instead of %v, %+v", name, got, want, res)
		}
		s.end()
	}
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

// Models whose memory cannot be cut serve without pages.
func TestArchitecturesWithoutPages(t *testing.T) {
	for name, m := range map[string]*tiny{"recurrent": tinyMamba(), "hybrid": tinyHybrid(), "window": tinyWindow()} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tiny.gguf")
			if err := os.WriteFile(path, m.bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newPageSlot(t, t.TempDir(), shared.SlotSpec{ModelPath: path, ContextTokens: 256, Parallel: 2, PageTokens: 64, PrefillChunk: 64})
			defer s.end()
			prompt := []int32{10, 20, 30, 40, 50, 60}
			want, _, _ := s.must(prompt, 6)
			got, _, res := s.must(prompt, 6)
			if res.Usage.CachedTokens != 0 || res.MissReason != "arch_not_reusable" || !slices.Equal(got, want) || s.stats().Pages.Off == "" {
				t.Errorf("%v and %v, %+v", got, want, res)
			}
		})
	}
}

// Sixteen requests at once on a cold slot compute their common trunk once.
func TestTrunkOnce(t *testing.T) {
	const trunk, tail, requests = 384, 32, 16
	spec := pageSpec("q8_0", shared.ReuseFast)
	spec.Parallel = 8
	random := rand.New(rand.NewPCG(11, 12))
	common := noise(random, trunk)
	var list [][]int32
	for range requests {
		list = append(list, slices.Concat(common, noise(random, tail)))
	}
	alone := newPageSlot(t, t.TempDir(), pageSpec("q8_0", shared.ReuseFast))
	var want [][]int32
	for _, p := range list {
		tokens, _, _ := alone.must(p, 8)
		want = append(want, tokens)
	}
	alone.end()
	s := newPageSlot(t, t.TempDir(), spec)
	defer s.end()
	differing := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() {
			tokens, _, err := s.ask(t.Context(), p, 8)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if !slices.Equal(tokens, want[i]) {
				differing++
			}
		})
	}
	wg.Wait()
	if n := s.stats().Pages.PrefilledTokens; n != trunk+requests*tail {
		t.Errorf("%d prompt tokens were computed, want %d", n, trunk+requests*tail)
	}
	// Rows in a batch round differently from rows alone: ties may fall elsewhere.
	if differing > requests/4 {
		t.Errorf("%d of %d answers differ from those alone", differing, requests)
	}
}

// Sixteen system prompts with four questions each, mixed, with room for few of
// them on the device: each system prompt is computed once.
func TestInterleavedSystemPrompts(t *testing.T) {
	const systems, each, long, short = 16, 4, 384, 32
	spec := pageSpec("q8_0", shared.ReuseFast)
	spec.Parallel = 4
	s := newPageSlot(t, t.TempDir(), spec)
	defer s.end()
	random := rand.New(rand.NewPCG(13, 14))
	var wg sync.WaitGroup
	var list [][]int32
	for range systems {
		system := noise(random, long)
		for range each {
			list = append(list, slices.Concat(system, noise(random, short)))
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	next := make(chan []int32)
	for range 8 {
		wg.Go(func() {
			for p := range next {
				if _, _, err := s.ask(t.Context(), p, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, p := range list {
		next <- p
	}
	close(next)
	wg.Wait()
	least := int64(systems * (long + each*short))
	if n := s.stats().Pages.PrefilledTokens; n > least*105/100 {
		t.Errorf("%d prompt tokens were computed, %d had to be", n, least)
	}
}
