package llamacpp

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// With exact reuse a hit gives the logits of a cold run to the bit: from sequences
// that still hold the prompt's beginning, from host memory, and from disk in
// another process. It would not with another page in a page's place.
func TestExactReuseIsBitIdentical(t *testing.T) {
	for _, precision := range precisions {
		t.Run(precision, func(t *testing.T) {
			t.Parallel()
			list := prompts(rand.New(rand.NewPCG(3, 4)), 200)
			cfg := small()
			cfg.Sequences, cfg.BatchTokens = 1, 129
			reference := newContext(t, loadPath(t, precision), cfg)
			var want [][][]float32
			for _, p := range list {
				_, logits := cold(t, reference, p, 2)
				want = append(want, logits)
			}
			dir := t.TempDir()
			for _, tier := range []string{"device", "host", "disk"} {
				spec := pageSpec(precision, shared.ReuseExact)
				if tier == "device" {
					spec.Parallel, spec.PagesHost = 12, 1<<19 // one page
				} else {
					spec.PagesDisk = 1 << 30
				}
				s := newPageSlot(t, dir, spec)
				for i, p := range list {
					_, got, res := s.must(p, 2)
					if !same(got, want[i]) {
						t.Fatalf("%s, prompt %d of %d tokens, %d cached: logits differ by %v", tier, i, len(p), res.Usage.CachedTokens, furthest(got[0], want[i][0]))
					}
				}
				st := s.stats().Pages
				if hits := map[string]int64{"device": st.HitDeviceTokens, "host": st.HitHostTokens, "disk": st.HitDiskTokens}; hits[tier] < 2000 {
					t.Errorf("%s: pages were hardly used: %+v", tier, st)
				}
				if tier == "disk" {
					leaksShow(t, s, reference, list, want)
				}
				s.end()
			}
		})
	}
}

// leaksShow exchanges a page of what is restored for one of another prompt, with
// all checks passed: the comparison has to notice every time.
func leaksShow(t *testing.T, s *pageSlot, reference *Context, list [][]int32, want [][][]float32) {
	t.Helper()
	tamper := foreignPage(stateOf(t, reference, noise(rand.New(rand.NewPCG(5, 4)), 70)))
	s.engine.tamper.Store(&tamper)
	defer s.engine.tamper.Store(nil)
	seen := 0
	for i := 0; i < len(list) && seen < 20; i++ {
		held := s.stats().Pages.HitDeviceTokens
		_, got, res := s.must(list[i], 1)
		if res.Usage.CachedTokens <= 64 || s.stats().Pages.HitDeviceTokens != held {
			continue // nothing was restored
		}
		if seen++; same(got, want[i][:1]) {
			t.Errorf("a page of prompt %d was exchanged and nothing changed", i)
		}
	}
	if seen < 20 {
		t.Errorf("only %d prompts were restored", seen)
	}
}

// stateOf is the state of a sequence that has computed a prompt, with one sequence
// in the context.
func stateOf(t testing.TB, c *Context, prompt []int32) pages.State {
	t.Helper()
	cold(t, c, prompt, 1)
	blob := make([]byte, c.StateSize(0))
	c.StateGet(0, blob)
	st, err := pages.ParseState(blob)
	if err != nil {
		t.Fatal(err)
	}
	return st
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
}

// Without a disk tier pages are still in host memory after an eviction that keeps
// the host buffer, for a slot of the same settings: exact and fast pages never mix.
func TestPagesOutliveAnEviction(t *testing.T) {
	s := newPageSlot(t, t.TempDir(), pageSpec("q8_0", shared.ReuseFast))
	defer s.end()
	prompt := noise(rand.New(rand.NewPCG(7, 8)), 300)
	want, _, _ := s.must(prompt, 4)
	for _, c := range []struct {
		reuse  shared.Reuse
		drop   bool
		cached int
	}{
		{shared.ReuseFast, false, 299}, {shared.ReuseFast, true, 0}, {shared.ReuseFast, false, 299},
		{shared.ReuseExact, false, 0}, {shared.ReuseExact, false, 256}, {shared.ReuseFast, false, 0},
	} {
		if _, err := s.Evict(t.Context(), c.drop); err != nil {
			t.Fatal(err)
		}
		st := s.stats()
		if kept := st.Pages.Host.Pages > 0; kept == c.drop || st.Pages.Device != (shared.PageTier{}) {
			t.Errorf("after the eviction: %+v", st.Pages)
		}
		s.spec.Reuse = c.reuse
		s.identity = identityOf(t, s.spec)
		s.prepare()
		got, _, res := s.must(prompt, 4)
		if res.Usage.CachedTokens != c.cached || s.stats().Pages.HitHostTokens < int64(c.cached) || c.reuse == shared.ReuseFast && !slices.Equal(got, want) {
			t.Errorf("%+v: %+v, %v instead of %v", c, res, got, want)
		}
	}
}

// Models whose memory cannot be cut at a page serve without pages: every answer is
// what the engine computes alone, whatever the slot has computed before.
func TestArchitecturesWithoutPages(t *testing.T) {
	generated := func(kind ggufwrite.Kind) []byte {
		header, err := gguf.ReadFile(modelPath("q8_0"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ggufwrite.Model{Kind: kind, Context: 512, Seed: 3, Tokenizer: ggufwrite.CopyKeys(header, "tokenizer.")}.Build()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := m.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, file := range map[string][]byte{
		"recurrent": generated(ggufwrite.Recurrent), "window": generated(ggufwrite.Window), "hybrid": tinyHybrid().bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			m := load(t, slotworker.LoadRequest{Path: path})
			cfg := small()
			cfg.TokensPerSequence, cfg.Sequences = 256, 1
			spec := pageSpec("", shared.ReuseFast)
			spec.ModelPath, spec.ContextTokens, spec.Parallel, spec.PrefillChunk = path, 256, 2, 128
			s := newPageSlot(t, t.TempDir(), spec)
			defer s.end()
			random := rand.New(rand.NewPCG(41, 42))
			first := randomTokens(random, 200, m.info.Vocab)
			for i, prompt := range [][]int32{first, first, first[:120], append(first[:150:150], randomTokens(random, 40, m.info.Vocab)...)} {
				alone := newContext(t, m, cfg)
				rows := run(0, 0, prompt[:min(128, len(prompt))]...)
				want := last(t, alone, rows)
				if len(prompt) > 128 {
					want = last(t, alone, run(0, 128, prompt[128:]...))
				}
				_, got, res := s.must(prompt, 2)
				if res.Usage.CachedTokens != 0 || res.MissReason != "arch_not_reusable" || !slices.Equal(got[0], want) {
					t.Errorf("prompt %d: logits differ by %v, %+v", i, furthest(got[0], want), res)
				}
			}
			if st := s.stats(); st.Pages.Off == "" || st.Pages.Device != (shared.PageTier{}) || st.Pages.Host != (shared.PageTier{}) {
				t.Errorf("%+v", st)
			}
		})
	}
}

func randomTokens(random *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = 3 + random.Int32N(int32(min(vocab, 250)-3))
	}
	return tokens
}
