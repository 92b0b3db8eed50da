package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

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
				p := r.use(tokens, "")
				if p.Tokens != 4 {
					t.Fatalf("%d tokens were restored", p.Tokens)
				}
				r.flush()
				if c.name == "version" {
					r.want(p, 4, ReasonTokenHash, -1)
					return // another version's file is not ours to judge
				}
				reason := ReasonChecksum
				if scanned && c.seen {
					reason = ReasonTokenHash // it is only known that there is no such page
				}
				if p.Reason != reason {
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
				r.want(open(t, testConfig(dir)).use(tokens, ""), 10, "", -1)
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
			plan := r.use(seq(1, 9), "")
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
	r.want(r.use(seq(1, 5), ""), 0, ReasonModelRevision, -1)
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
		a.want(a.use(seq(1, 17), ""), 16, ReasonTokenHash, -1)
		b.want(b.plan(seq(1, 17), ""), 16, ReasonTokenHash, -1)
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
		o.want(o.plan(seq(1, 5), ""), 0, reason, -1)
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
	other := r.plan(seq(1, 11), "") // uses the same pages
	p := r.plan(seq(1, 11), "")
	r.Release(p, Short)
	r.want(r.use(seq(1, 11), ""), 0, ReasonTokenHash, -1)
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
	r.Release(r.plan(seq(1, 5), ""), Short)
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

// TestWhatIsNoFileIsDamage has other things under the names of pages. A pipe would
// hold up whoever opens it for ever.
func TestWhatIsNoFileIsDamage(t *testing.T) {
	tokens := seq(1, 11)
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, scanned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, scanned %v", name, scanned), func(t *testing.T) {
				dir := t.TempDir()
				first := open(t, testConfig(dir))
				first.save(tokens, "")
				first.flush()
				victim := filepath.Join(dir, nameOf(NewSpace(testIdentity, ""), 1, first.NewPrompt(tokens).Hash(1)).String())
				spoil := func() {
					if err := errors.Join(os.Remove(victim), put(victim)); err != nil {
						t.Fatal(err)
					}
				}
				if scanned {
					spoil()
				}
				r := open(t, testConfig(dir))
				r.flush()
				if !scanned {
					spoil()
				}
				if p := r.use(tokens, ""); p.Tokens != 4 {
					t.Errorf("%d tokens were restored", p.Tokens)
				}
				r.flush()
				if info, err := os.Lstat(victim); err == nil && !info.Mode().IsRegular() {
					t.Errorf("it is still there: %v", info.Mode())
				}
			})
		}
	}
}
