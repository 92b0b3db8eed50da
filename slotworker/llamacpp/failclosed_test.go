package llamacpp

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// doubt is a prompt whose pages lie on disk, and what the engine computes for it
// without them.
type doubt struct {
	t      *testing.T
	dir    string
	spec   shared.SlotSpec
	prompt []int32
	want   [][]float32
	state  pages.State // of the prompt
	exact  *Context
}

// newDoubt fills a directory with the four pages of a prompt.
func newDoubt(t *testing.T) *doubt {
	t.Helper()
	d := &doubt{t: t, dir: t.TempDir(), spec: pageSpec("q8_0", shared.ReuseExact), prompt: noise(rand.New(rand.NewPCG(21, 22)), 300)}
	d.spec.PagesDisk = 1 << 30
	cfg := small()
	cfg.Sequences, cfg.BatchTokens = 1, 129
	d.exact = newContext(t, loadPath(t, "q8_0"), cfg)
	_, d.want = cold(t, d.exact, d.prompt, 3)
	d.state = stateOf(t, d.exact, d.prompt)
	return d
}

func (d *doubt) pages() string { return filepath.Join(d.dir, "pages") }

// store is what a worker of some identity would have in the directory.
func (d *doubt) store(id shared.Identity, salt string, prompt []int32, state pages.State) {
	d.t.Helper()
	s, err := pages.Open(pages.Config{
		Identity: id, PageTokens: 64, Exact: true, Layout: state.Layout, HostBytes: 16 << 20, Dir: d.pages(), DiskBytes: 1 << 30,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	state.Cells = state.Cells / 64 * 64
	if _, err := s.Save(pages.Save{Prompt: s.NewPrompt(prompt), Salt: salt, State: state}); err != nil {
		d.t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		d.t.Fatal(err)
	}
}

// open starts a worker that has looked through the directory: it knows all pages
// of its own.
func (d *doubt) open() *pageSlot {
	d.t.Helper()
	s := newPageSlot(d.t, d.dir, d.spec)
	own := 0
	for _, f := range pageFiles(d.t, d.pages()) {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), s.identity.ModelRevision) &&
			strings.Contains(string(b), s.identity.TokenizerRevision) && strings.Contains(string(b), s.identity.LayoutRevision) &&
			strings.Contains(string(b), s.identity.SlotRevision) {
			own++
		}
	}
	d.eventually(func() bool { return s.stats().Pages.Disk.Pages == own })
	return s
}

// eventually waits for something that another goroutine is about to do.
func (d *doubt) eventually(done func() bool) {
	d.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			d.t.Fatal("it did not happen in 20 s")
		}
	}
}

// missed asks for the prompt and wants so many tokens from pages, a miss with that
// reason for the rest, and the answer of a cold run.
func (d *doubt) missed(s *pageSlot, cached int, reason pages.Reason) {
	d.t.Helper()
	_, got, res := s.must(d.prompt, 3)
	if !same(got, d.want) {
		d.t.Errorf("the logits differ from a cold run's by %v", furthest(got[0], d.want[0]))
	}
	if res.Usage.CachedTokens != cached || res.MissReason != string(reason.Public()) {
		d.t.Errorf("%d tokens cached, reason %q, want %d, %q", res.Usage.CachedTokens, res.MissReason, cached, reason)
	}
	if n := s.stats().Pages.MissTokens[string(reason)]; reason != "" && n == 0 {
		d.t.Errorf("misses: %v", s.stats().Pages.MissTokens)
	}
}

// quarantined waits until at least so many files have been set aside, for that reason.
func (d *doubt) quarantined(n int, reason pages.Reason) {
	d.t.Helper()
	d.eventually(func() bool {
		files, err := filepath.Glob(filepath.Join(d.pages(), "quarantine", "*."+string(reason)))
		return err == nil && len(files) >= n // loaders read side by side
	})
}

// Each single field of the key is another one: the page is there, is not used,
// and the miss says which field it was.
func TestEachFieldOfTheKey(t *testing.T) {
	for reason, change := range map[pages.Reason]func(*shared.Identity, *string){
		pages.ReasonModelRevision:     func(id *shared.Identity, _ *string) { id.ModelRevision = "sha256:other" },
		pages.ReasonTokenizerRevision: func(id *shared.Identity, _ *string) { id.TokenizerRevision = "sha256:other" },
		pages.ReasonLayoutRevision:    func(id *shared.Identity, _ *string) { id.LayoutRevision = "sha256:other" },
		pages.ReasonSlotRevision:      func(id *shared.Identity, _ *string) { id.SlotRevision = "sha256:other" },
		pages.ReasonSalt:              func(_ *shared.Identity, salt *string) { *salt = "tenant" },
		"":                            func(*shared.Identity, *string) {},
	} {
		t.Run(string(reason), func(t *testing.T) {
			d := newDoubt(t)
			id, salt := identityOf(t, d.spec), ""
			change(&id, &salt)
			d.store(id, salt, d.prompt, d.state)
			// A page of the slot's own that is looked at last.
			other := noise(rand.New(rand.NewPCG(23, 24)), 65)
			before := pageFiles(t, d.pages())
			d.store(identityOf(t, d.spec), "", other, stateOf(t, d.exact, other))
			for _, f := range pageFiles(t, d.pages()) {
				if !slices.Contains(before, f) {
					if err := os.Chtimes(f, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
						t.Fatal(err)
					}
				}
			}
			s := d.open()
			defer s.end()
			if reason == "" {
				d.missed(s, 256, "")
				return
			}
			d.missed(s, 0, reason)
		})
	}
}

// Whatever happens to the files, the answer is that of a cold run, the miss says
// what was found, and the file is set aside.
func TestSpoiltFiles(t *testing.T) {
	flip := func(b []byte) []byte { b[len(b)-20] ^= 1; return b }
	cases := []struct {
		name   string
		spoil  func(d *doubt, files []string)
		cached int
		reason pages.Reason
		aside  int
	}{
		{"flipped byte", func(d *doubt, files []string) { d.rewrite(files[2], flip) }, 128, pages.ReasonChecksum, 1},
		{"flipped byte in the first", func(d *doubt, files []string) { d.rewrite(files[0], flip) }, 0, pages.ReasonChecksum, 1},
		{"cut", func(d *doubt, files []string) { d.rewrite(files[1], func(b []byte) []byte { return b[:len(b)/2] }) }, 64, pages.ReasonChecksum, 1},
		{"swapped", func(d *doubt, files []string) {
			a, b := d.read(files[1]), d.read(files[2])
			d.write(files[1], b)
			d.write(files[2], a)
		}, 64, pages.ReasonPageIndex, 1},
		{"of another model", func(d *doubt, files []string) {
			id := identityOf(d.t, d.spec)
			id.ModelRevision = "sha256:other"
			elsewhere := *d
			elsewhere.dir = d.t.TempDir()
			elsewhere.store(id, "", d.prompt, d.state)
			d.write(files[0], d.read(elsewhere.inOrder()[0]))
		}, 0, pages.ReasonModelRevision, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDoubt(t)
			d.store(identityOf(t, d.spec), "", d.prompt, d.state)
			s := d.open()
			defer s.end()
			c.spoil(d, d.inOrder())
			d.missed(s, c.cached, c.reason)
			d.quarantined(c.aside, c.reason)
			// The pages are computed anew and serve again.
			s.must(noise(rand.New(rand.NewPCG(25, 26)), 70), 1)
			d.missed(s, 256, "")
		})
	}
}

// inOrder are the files of the prompt's pages, by their index.
func (d *doubt) inOrder() []string {
	d.t.Helper()
	files := pageFiles(d.t, d.pages())
	payload := func(f string) int {
		b := d.read(f)
		for i := range d.state.Cells / 64 {
			page := cut(d.state, i*64, i*64+64).Payload
			if strings.Contains(string(b), string(page)) {
				return i
			}
		}
		d.t.Fatalf("%s is no page of the prompt", f)
		return 0
	}
	slices.SortFunc(files, func(a, b string) int { return payload(a) - payload(b) })
	return files
}

func (d *doubt) read(file string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *doubt) write(file string, b []byte) {
	d.t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *doubt) rewrite(file string, change func([]byte) []byte) {
	d.write(file, change(d.read(file)))
}

// The engine takes less than the whole state, and may leave tokens behind: the
// sequence is cleared, the pages are set aside and everything is computed.
func TestShortRestore(t *testing.T) {
	for name, restore := range map[string]tampering{
		"the state is cut": func(c slotworker.Context, seq int32, state []byte) int {
			return c.StateSet(seq, state[:len(state)/2])
		},
		"nothing is taken": func(slotworker.Context, int32, []byte) int { return 0 },
		"less is said than was taken": func(c slotworker.Context, seq int32, state []byte) int {
			return c.StateSet(seq, state) - 1
		},
		"fewer tokens are there": func(c slotworker.Context, seq int32, state []byte) int {
			st, err := pages.ParseState(state)
			if err != nil {
				return 0
			}
			c.StateSet(seq, join(st, cut(st, 0, 64)))
			return len(state)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoubt(t)
			d.store(identityOf(t, d.spec), "", d.prompt, d.state)
			s := d.open()
			defer s.end()
			s.engine.tamper.Store(&restore)
			d.missed(s, 0, pages.ReasonRestoreShort)
			s.engine.tamper.Store(nil)
			d.quarantined(4, pages.ReasonRestoreShort)
			if st := s.stats(); st.KVTokensUsed != 0 {
				t.Errorf("%+v", st)
			}
			s.must(noise(rand.New(rand.NewPCG(25, 26)), 70), 1)
			d.missed(s, 256, "")
		})
	}
}
