package pages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	r.want(r.use(known, "", false), 10, "", -1)
	r.want(r.use(known, "", true), 8, "", -1)
	r.want(r.use(known[:8], "", false), 7, "", -1)
	r.want(r.use(known[:8], "", true), 4, "", -1)
	r.want(r.use(known[:1], "", true), 0, "", -1)
	r.want(r.use(join(known, seq(3, 9)), "", false), 11, ReasonTokenHash, -1)
	r.want(r.use(join(known, seq(3, 9)), "", true), 8, ReasonTokenHash, -1)
	r.want(r.use(join(known[:6], seq(3, 9)), "", false), 4, ReasonTokenHash, 6)
	r.want(r.use(join(known[:2], seq(3, 9)), "", false), 0, ReasonTokenHash, 2)
	r.want(r.use(seq(5, 20), "", false), 0, ReasonTokenHash, -1)
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
		p := r.use(base[:n], "", false)
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
			p := open(t, cfg).use(tokens, c.salt, false)
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
	r.want(r.use(seq(2, 5), "", false), 0, ReasonTokenMismatch, -1)
	r.want(r.use(seq(1, 5), "", false), 4, ReasonPageIndex, -1)

	// The second page of one prompt after the first page of another.
	r.save(join(seq(1, 4), seq(3, 4)), "")
	r.save(join(seq(2, 4), seq(4, 4)), "")
	mixed := r.use(join(seq(2, 4), seq(3, 4), seq(9, 1)), "", false)
	if mixed.Tokens != 4 || mixed.Reason != ReasonTokenMismatch {
		t.Fatalf("%d tokens restored, reason %q", mixed.Tokens, mixed.Reason)
	}
	// The same tokens at another place.
	r.save(join(seq(5, 4)), "")
	moved := r.use(join(seq(1, 4), seq(5, 4), seq(9, 1)), "", false)
	if moved.Tokens != 4 {
		t.Fatalf("%d tokens restored", moved.Tokens)
	}

	// On disk, where both have one file name.
	r.flush()
	again := open(t, cfg)
	p := again.use(seq(7, 5), "", false)
	if p.Tokens != 0 || p.Reason != ReasonTokenMismatch {
		t.Fatalf("%d tokens restored, reason %q", p.Tokens, p.Reason)
	}
}

func TestDamageOnDisk(t *testing.T) {
	tokens := seq(1, 11)
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 0x10
			return b
		}
	}
	cases := []struct {
		name   string
		seen   bool // already without reading the payload
		damage func([]byte) []byte
	}{
		{"magic", true, flip(0)},
		{"version", false, flip(8)},
		{"length of the fields", true, flip(13)},
		{"a revision", true, flip(30)},
		{"a token", true, flip(257)},
		{"header checksum", true, flip(282)},
		{"payload", false, flip(-20)},
		{"checksum", false, flip(-1)},
		{"cut in the preamble", true, func(b []byte) []byte { return b[:9] }},
		{"cut in the header", true, func(b []byte) []byte { return b[:100] }},
		{"cut in the payload", true, func(b []byte) []byte { return b[:len(b)-30] }},
		{"cut in the checksum", true, func(b []byte) []byte { return b[:len(b)-1] }},
		{"longer", true, func(b []byte) []byte { return append(b, 0) }},
		{"empty", true, func([]byte) []byte { return nil }},
	}
	for _, c := range cases {
		for _, scanned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, scanned %v", c.name, scanned), func(t *testing.T) {
				dir := t.TempDir()
				first := open(t, testConfig(dir))
				first.save(tokens, "")
				first.flush()
				victim := filepath.Join(dir, nameOf(NewSpace(testIdentity, ""), 1, first.NewPrompt(tokens).Hash(1)).String())
				spoil := func() {
					b, err := os.ReadFile(victim)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(victim, c.damage(b), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if scanned {
					spoil()
				}
				r := open(t, testConfig(dir))
				r.flush()
				if n := len(quarantined(t, dir)); scanned && c.seen != (n == 1) {
					t.Fatalf("%d files are in quarantine after the scan", n)
				}
				if !scanned {
					spoil()
				}
				p := r.use(tokens, "", false)
				if p.Tokens != 4 {
					t.Fatalf("%d tokens were restored", p.Tokens)
				}
				r.flush()
				if c.name == "version" {
					r.want(p, 4, ReasonTokenHash, -1)
					return // another version's file is not ours to judge
				}
				// A scan that reads more than the payload has found it already; the
				// lookup after it only knows that there is no such page.
				if p.Reason != ReasonChecksum && (!scanned || p.Reason != ReasonTokenHash) {
					t.Fatalf("reason %q", p.Reason)
				}
				if q := quarantined(t, dir); !slices.Equal(q, []string{string(ReasonChecksum)}) {
					t.Fatalf("in quarantine: %v", q)
				}
				if r.Stats().Rejected[ReasonChecksum] != 1 {
					t.Fatalf("rejected: %v", r.Stats().Rejected)
				}
				// The page is computed again, and then served.
				r.save(tokens, "")
				r.flush()
				r.want(open(t, testConfig(dir)).use(tokens, "", false), 10, "", -1)
			})
		}
	}
}

func TestSwappedFiles(t *testing.T) {
	for _, scanned := range []bool{true, false} {
		t.Run(fmt.Sprintf("scanned %v", scanned), func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, testConfig(dir))
			first.save(seq(1, 8), "")
			first.flush()
			p := first.NewPrompt(seq(1, 8))
			a := filepath.Join(dir, nameOf(NewSpace(testIdentity, ""), 0, p.Hash(0)).String())
			b := filepath.Join(dir, nameOf(NewSpace(testIdentity, ""), 1, p.Hash(1)).String())
			swap := func() {
				for _, m := range [][2]string{{a, a + "x"}, {b, a}, {a + "x", b}} {
					if err := os.Rename(m[0], m[1]); err != nil {
						t.Fatal(err)
					}
				}
			}
			if scanned {
				swap()
			}
			r := open(t, testConfig(dir))
			r.flush()
			if n := len(quarantined(t, dir)); scanned && n != 2 {
				t.Fatalf("%d files are in quarantine after the scan", n)
			}
			if !scanned {
				swap()
			}
			plan := r.use(seq(1, 9), "", false)
			if plan.Tokens != 0 {
				t.Fatalf("%d tokens were restored", plan.Tokens)
			}
			r.flush()
			if n := len(quarantined(t, dir)); n < 1 {
				t.Fatal("nothing is in quarantine")
			}
			if !scanned && plan.Reason != ReasonPageIndex {
				t.Fatalf("reason %q", plan.Reason)
			}
		})
	}
}

// A page of another model under the name of one of ours.
func TestPageOfAnotherModel(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	other := testConfig(elsewhere)
	other.Identity.ModelRevision = "sha256:another"
	o := open(t, other)
	o.save(seq(1, 4), "")
	o.flush()
	r := open(t, testConfig(dir))
	b, err := os.ReadFile(files(t, elsewhere)[0])
	if err != nil {
		t.Fatal(err)
	}
	name := nameOf(NewSpace(testIdentity, ""), 0, r.NewPrompt(seq(1, 4)).Hash(0)).String()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(r.use(seq(1, 5), "", false), 0, ReasonModelRevision, -1)
	r.flush()
	if q := quarantined(t, dir); !slices.Equal(q, []string{string(ReasonModelRevision)}) {
		t.Fatalf("in quarantine: %v", q)
	}
}

// Slots of different models share a directory, and leave each other's pages alone.
func TestModelsShareADirectory(t *testing.T) {
	mine := testConfig(t.TempDir())
	theirs := mine
	theirs.Identity.ModelRevision = "sha256:another"
	theirs.PageTokens = 8
	theirs.Layout = Layout{Streams: 1, Planes: []Plane{{1, 100}, {1, 28}}}
	e := newFakeEngine()
	e.layout, e.seqs = theirs.Layout, e.seqs[:1]
	e.decode(0, seq(1, 16)...)
	st, err := ParseState(e.state(0))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a, b := open(t, mine), open(t, theirs)
		a.save(seq(1, 16), "")
		if _, err := b.Save(Save{Prompt: b.NewPrompt(seq(1, 16)), State: st}); err != nil {
			t.Fatal(err)
		}
		a.want(a.use(seq(1, 17), "", false), 16, ReasonTokenHash, -1)
		b.want(b.plan(seq(1, 17), "", false), 16, ReasonTokenHash, -1)
		a.flush()
		b.flush()
		if st := a.Stats(); st.Disk.Pages != 4 || st.DiskAll.Pages < 4 {
			t.Fatalf("%+v", st)
		}
		a.close()
		if err := b.Close(context.Background()); err == nil {
			t.Fatal("the plan was not missed")
		}
	}
	if q := quarantined(t, mine.Dir); len(q) != 0 {
		t.Fatalf("in quarantine: %v", q)
	}
	if all := inDirectory(t, mine.Dir, 0); all.Pages != 6 {
		t.Fatalf("%+v", all)
	}
}

// A page whose key is right but whose rows have another form.
func TestPageOfAnotherShape(t *testing.T) {
	for _, scanned := range []bool{true, false} {
		cfg := testConfig(t.TempDir())
		other := cfg
		other.Layout = Layout{Streams: 3, Planes: []Plane{{1, 16}, {1, 8}, {1, 16}, {8, 8}}}
		r, o := open(t, cfg), open(t, other)
		r.save(seq(1, 4), "")
		r.flush()
		reason := ReasonLayoutRevision
		if scanned {
			o = open(t, other)
			reason = ReasonTokenHash
		}
		o.want(o.plan(seq(1, 5), "", false), 0, reason, -1)
		o.flush()
		if q := quarantined(t, cfg.Dir); !slices.Equal(q, []string{string(ReasonLayoutRevision)}) {
			t.Fatalf("in quarantine: %v", q)
		}
	}
}

func TestShortRestorePoisons(t *testing.T) {
	dir := t.TempDir()
	r := open(t, testConfig(dir))
	r.save(seq(1, 11), "")
	r.flush()
	other := r.plan(seq(1, 11), "", false) // uses the same pages
	p := r.plan(seq(1, 11), "", false)
	r.Release(p, Short)
	r.want(r.use(seq(1, 11), "", false), 0, ReasonTokenHash, -1)
	r.check(other, seq(1, 11)) // its memory is still there
	r.Release(other, Used)
	r.flush()
	if q := quarantined(t, dir); len(q) != 3 || q[0] != string(ReasonRestoreShort) {
		t.Fatalf("in quarantine: %v", q)
	}
	if n := len(files(t, dir)); n != 0 {
		t.Fatalf("%d files are left", n)
	}
	st := r.Stats()
	if st.MissTokens[ReasonRestoreShort] != 11 || st.Host.Pages != 0 || st.HostUsed != 0 || st.Disk.Pages != 0 {
		t.Fatalf("%+v", st)
	}
	if n := r.save(seq(1, 11), ""); n != 3 {
		t.Fatalf("%d pages were kept again", n)
	}
}

// A page that is being written when it turns out to be bad keeps its memory until
// the writer is done, and does not stay on disk.
func TestShortRestoreWhileWriting(t *testing.T) {
	cfg := testConfig(t.TempDir())
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	cfg.Files = &blockingFiles{FileOps: NewOSFiles(), entered: entered, block: block}
	r := open(t, cfg)
	r.flush()
	r.save(seq(1, 4), "")
	<-entered
	r.Release(r.plan(seq(1, 5), "", false), Short)
	if st := r.Stats(); st.HostUsed == 0 {
		t.Error("memory that is being written was given away")
	}
	close(block)
	r.flush()
	if st := r.Stats(); st.HostUsed != 0 || st.Disk.Pages != 0 || len(files(t, r.dir)) != 0 {
		t.Errorf("%+v, %v", st, files(t, r.dir))
	}
	checkBooks(t, r)
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
	p := again.use(seq(1, 23), "tenant", false)
	again.want(p, 22, "", -1)
	if p.DiskTokens != 22 {
		t.Fatalf("%d tokens came from disk", p.DiskTokens)
	}
	p = again.use(join(seq(1, 23), seq(2, 30)), "tenant", false)
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
	p := r.plan(seq(1, 40), "", false)
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
	r.want(r.use(seq(1, 40), "", false), 39, "", -1)
	r.close()
	if memory.mapped != 0 {
		t.Fatalf("%d bytes stay mapped", memory.mapped)
	}
}

func TestCloseNamesPagesInUse(t *testing.T) {
	r := open(t, testConfig(""))
	r.save(seq(1, 8), "")
	p := r.plan(seq(1, 8), "", false)
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
	st.Layout.Streams++
	if _, err := r.Save(Save{Prompt: r.NewPrompt(seq(1, 8)), State: st}); err == nil {
		t.Error("another layout")
	}
	if n := r.Unsaved(r.NewPrompt(seq(1, 9)), "", 9, true); n != 3 {
		t.Errorf("%d pages are unsaved", n)
	}
}
