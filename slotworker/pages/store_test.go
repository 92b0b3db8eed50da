package pages

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLookupFindsExactlyWhatWasSaved(t *testing.T) {
	r := open(t, testConfig(""))
	known := join(seq(1, 8), seq(2, 3)) // two pages and a tail of 3
	if n := r.save(known, ""); n != 3 {
		t.Fatalf("%d pages were kept", n)
	}
	if n := r.save(known, ""); n != 0 {
		t.Fatalf("%d pages were kept twice", n)
	}
	r.want(r.use(known, ""), 10, "", -1)
	r.want(r.use(known[:8], ""), 7, "", -1)
	r.want(r.use(join(known, seq(3, 9)), ""), 11, ReasonTokenHash, -1)
	r.want(r.use(join(known[:6], seq(3, 9)), ""), 4, ReasonTokenHash, 6)
	r.want(r.use(join(known[:2], seq(3, 9)), ""), 0, ReasonTokenHash, 2)
	r.want(r.use(seq(5, 20), ""), 0, ReasonTokenHash, -1)
}

func TestExactTakesWholePages(t *testing.T) {
	cfg := testConfig(t.TempDir())
	fast := open(t, cfg)
	known := join(seq(1, 8), seq(2, 3))
	fast.save(known, "")
	fast.flush()
	cfg.Exact = true
	r := open(t, cfg)
	r.want(r.use(known, ""), 0, ReasonTokenHash, -1) // pages that were computed otherwise
	if n := r.save(known, ""); n != 2 {
		t.Fatalf("%d pages were kept", n)
	}
	r.want(r.use(known, ""), 8, "", -1)
	r.want(r.use(known[:8], ""), 4, "", -1)
	r.want(r.use(known[:1], ""), 0, "", -1)
	r.want(r.use(join(known, seq(3, 9)), ""), 8, ReasonTokenHash, -1)
	r.want(r.use(join(known[:6], seq(3, 9)), ""), 4, ReasonTokenHash, 6)
	r.flush()
	again := open(t, cfg)
	again.want(again.use(known, ""), 8, "", -1)
}

func TestTailsOfManyLengths(t *testing.T) {
	cfg := testConfig("")
	cfg.PageTokens = 8
	r := open(t, cfg)
	base := seq(1, 16)
	for _, n := range []int{9, 11, 14} {
		r.save(base[:n], "")
	}
	r.save(join(base[:12], seq(2, 3)), "") // a tail that shares 12 tokens
	for n, want := range map[int]int{9: 8, 10: 9, 11: 10, 12: 11, 13: 11, 14: 13, 15: 14, 16: 14} {
		p := r.use(base[:n], "")
		if p.Tokens != want {
			t.Errorf("%d tokens: %d restored instead of %d", n, p.Tokens, want)
		}
	}
}

// Each single field of the key is changed, and the miss names it.
func TestEachFieldOfTheKeyCounts(t *testing.T) {
	tokens := seq(1, 11)
	cases := []struct {
		reason Reason
		change func(*Config)
		salt   string
	}{
		{ReasonModelRevision, func(c *Config) { c.Identity.ModelRevision = "other" }, "tenant"},
		{ReasonTokenizerRevision, func(c *Config) { c.Identity.TokenizerRevision = "other" }, "tenant"},
		{ReasonLayoutRevision, func(c *Config) { c.Identity.LayoutRevision = "other" }, "tenant"},
		{ReasonSlotRevision, func(c *Config) { c.Identity.SlotRevision = "other" }, "tenant"},
		{ReasonSalt, func(*Config) {}, "somebody else"},
		{ReasonSalt, func(*Config) {}, ""},
		{ReasonTokenHash, func(c *Config) { c.PageTokens++ }, "tenant"},
		{"", func(*Config) {}, "tenant"},
	}
	for _, c := range cases {
		t.Run(string(c.reason)+c.salt, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, testConfig(dir))
			first.save(tokens, "tenant")
			first.flush()
			cfg := testConfig(dir)
			c.change(&cfg)
			p := open(t, cfg).use(tokens, c.salt)
			if p.Reason != c.reason {
				t.Fatalf("reason %q", p.Reason)
			}
			if hit := p.Tokens > 0; hit != (c.reason == "") {
				t.Fatalf("%d tokens were restored", p.Tokens)
			}
			if c.reason == ReasonSalt && (p.Reason.Public() != ReasonTokenHash || p.DivergedAt != -1) {
				t.Fatalf("the miss tells another tenant's prompt: %q, %d", p.Reason.Public(), p.DivergedAt)
			}
		})
	}
}

// With a Hasher whose hashes are all equal, pages still never serve other tokens.
func TestEqualHashesOfOtherTokens(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Hasher = func(Hash, []int32) Hash { return Hash{1} }
	r := open(t, cfg)
	r.save(seq(1, 4), "")
	r.want(r.use(seq(2, 5), ""), 0, ReasonTokenMismatch, -1)
	r.want(r.use(seq(1, 5), ""), 4, ReasonPageIndex, -1)

	// The second page of one prompt after the first page of another.
	r.save(join(seq(1, 4), seq(3, 4)), "")
	r.save(join(seq(2, 4), seq(4, 4)), "")
	mixed := r.use(join(seq(2, 4), seq(3, 4), seq(9, 1)), "")
	if mixed.Tokens != 4 || mixed.Reason != ReasonTokenMismatch {
		t.Fatalf("%d tokens restored, reason %q", mixed.Tokens, mixed.Reason)
	}
	// The same tokens at another place.
	r.save(join(seq(5, 4)), "")
	moved := r.use(join(seq(1, 4), seq(5, 4), seq(9, 1)), "")
	if moved.Tokens != 4 {
		t.Fatalf("%d tokens restored", moved.Tokens)
	}

	// On disk, where both have one file name.
	r.flush()
	again := open(t, cfg)
	p := again.use(seq(7, 5), "")
	if p.Tokens != 0 || p.Reason != ReasonTokenMismatch {
		t.Fatalf("%d tokens restored, reason %q", p.Tokens, p.Reason)
	}
}

func TestRestartServesWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	r := open(t, testConfig(dir))
	r.save(seq(1, 23), "tenant")
	r.close()
	again := open(t, testConfig(dir))
	before := again.Lookup(Query{Prompt: again.NewPrompt(seq(1, 23)), Salt: "tenant"})
	again.want(before, 0, ReasonTokenHash, -1)
	if !before.More {
		t.Fatal("a page on disk is not announced")
	}
	again.Release(before, Unused)
	p := again.use(seq(1, 23), "tenant")
	again.want(p, 22, "", -1)
	if p.DiskTokens != 22 {
		t.Fatalf("%d tokens came from disk", p.DiskTokens)
	}
	p = again.use(join(seq(1, 23), seq(2, 30)), "tenant")
	again.want(p, 23, ReasonTokenHash, -1)
	if p.DiskTokens != 0 {
		t.Fatalf("%d tokens came from disk again", p.DiskTokens)
	}
}

// The salt and its plain form are nowhere in the directory, and files are for
// their owner alone.
func TestFilesTellNothing(t *testing.T) {
	dir := t.TempDir()
	r := open(t, testConfig(dir))
	r.save(seq(1, 4), "secret tenant")
	r.flush()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("secret")) || strings.Contains(e.Name(), "secret") {
			t.Errorf("%s holds the salt", e.Name())
		}
	}
}

func TestDisabled(t *testing.T) {
	s := Disabled(testPage, "sliding window")
	p := s.Lookup(Query{Prompt: s.NewPrompt(seq(1, 9))})
	s.Load(t.Context(), p)
	if p.Tokens != 0 || p.Reason != ReasonArchNotReusable || p.More || p.DivergedAt != -1 {
		t.Fatalf("%+v", p)
	}
	s.Release(p, Used)
	if n, err := s.Save(Save{Prompt: s.NewPrompt(seq(1, 9)), State: state(t, seq(1, 9)), Tail: true}); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	st := s.Stats()
	if st.Off != "sliding window" || st.MissTokens[ReasonArchNotReusable] != 9 {
		t.Fatalf("%+v", st)
	}
	if _, err := s.DropHost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestDropHostGivesMemoryBack(t *testing.T) {
	cfg := testConfig(t.TempDir())
	memory := cfg.Memory.(*heapMemory)
	r := open(t, cfg)
	r.save(seq(1, 40), "")
	p := r.plan(seq(1, 40), "")
	if _, err := r.DropHost(t.Context()); err == nil {
		t.Fatal("memory in use was given back")
	}
	r.check(p, seq(1, 40))
	r.Release(p, Used)
	freed, err := r.DropHost(t.Context())
	if err != nil || freed == 0 || memory.mapped != 0 {
		t.Fatal(freed, err, memory.mapped)
	}
	if st := r.Stats(); st.HostMapped != 0 || st.Host.Pages != 0 || st.Disk.Pages != 10 {
		t.Fatalf("%+v", st)
	}
	r.want(r.use(seq(1, 40), ""), 39, "", -1)
	r.close()
	if memory.mapped != 0 {
		t.Fatalf("%d bytes stay mapped", memory.mapped)
	}
}

func TestCloseNamesPagesInUse(t *testing.T) {
	r := open(t, testConfig(""))
	r.save(seq(1, 8), "")
	p := r.plan(seq(1, 8), "")
	if err := r.Close(context.Background()); err == nil {
		t.Fatal("nothing was said")
	}
	r.check(p, seq(1, 8)) // the memory was left alone
}

func TestSaveRefusesWhatItCannotName(t *testing.T) {
	r := open(t, testConfig(""))
	st := state(t, seq(1, 8))
	if _, err := r.Save(Save{Prompt: r.NewPrompt(seq(1, 7)), State: st}); err == nil {
		t.Error("more cells than tokens")
	}
	st.Layout.Planes = st.Layout.Planes[2:]
	if _, err := r.Save(Save{Prompt: r.NewPrompt(seq(1, 8)), State: st}); err == nil {
		t.Error("another layout")
	}
	if n := r.Unsaved(r.NewPrompt(seq(1, 9)), "", 9, true); n != 3 {
		t.Errorf("%d pages are unsaved", n)
	}
}
