package pages

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// inDirectory counts the pages of a directory and fails for what has no business there.
func inDirectory(t *testing.T, dir string, owners int) Tier {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all Tier
	for _, e := range list {
		switch {
		case strings.HasSuffix(e.Name(), pageSuffix):
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			all.Pages++
			all.Bytes += info.Size()
		case strings.HasPrefix(e.Name(), ownerPrefix):
			owners--
		case e.Name() != lockName && e.Name() != usageName && e.Name() != quarantineDir:
			t.Errorf("%s was left", filepath.Join(dir, e.Name()))
		}
	}
	if owners != 0 {
		t.Errorf("%d fewer stores than expected say that they live", owners)
	}
	return all
}

// checkDirectory compares the books with what is there.
func checkDirectory(t *testing.T, r *rig) {
	t.Helper()
	if got, want := r.Stats().DiskAll, inDirectory(t, r.dir, 1); got != want {
		t.Errorf("the books say %+v, the directory has %+v", got, want)
	}
}

// Temporary files of a store that is gone are removed, those of a living one are not.
func TestReap(t *testing.T) {
	dir := t.TempDir()
	first := open(t, testConfig(dir))
	first.flush()
	living := first.disk.id
	for _, name := range []string{"0123456789abcdef.1.tmp", ownerPrefix + "0123456789abcdef", "fedcba9876543210.7.tmp", living + ".99.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := open(t, testConfig(dir))
	second.flush()
	if err := os.Remove(filepath.Join(dir, living+".99.tmp")); err != nil {
		t.Error("the temporary file of a living store was removed")
	}
	inDirectory(t, dir, 2)
	second.close()
	first.close()
	inDirectory(t, dir, 0)
}

// A page that another store wrote after this one had looked at the directory is found.
func TestStoresShareTheirPages(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, testConfig(dir)), open(t, testConfig(dir))
	a.save(seq(1, 11), "")
	a.flush()
	p := b.use(seq(1, 11), "")
	b.want(p, 10, "", -1)
	if p.DiskTokens != 10 {
		t.Errorf("%d tokens came from disk", p.DiskTokens)
	}
	// Files that vanish are a miss and no damage.
	for _, f := range files(t, dir) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, testConfig(dir))
	b.save(seq(2, 8), "")
	b.flush()
	c.want(c.use(seq(2, 8), ""), 7, "", -1)
	c.want(c.use(seq(1, 11), ""), 0, ReasonTokenHash, -1)
	if q := quarantined(t, dir); len(q) != 0 {
		t.Errorf("in quarantine: %v", q)
	}
}

// Two stores with little memory and disk, several callers each, the same prompts:
// every restored state is that of a cold run, no limit is passed, and at the end
// the books of the memory and the directory are right.
func TestStoresUnderLoad(t *testing.T) {
	for _, exact := range []bool{false, true} {
		t.Run(fmt.Sprintf("exact %v", exact), func(t *testing.T) { storesUnderLoad(t, exact) })
	}
}

func storesUnderLoad(t *testing.T, exact bool) {
	dir := t.TempDir()
	size := pageFileBytes(t)
	var stores []*rig
	for range 2 {
		cfg := testConfig(dir)
		cfg.HostBytes = 60 * testPage * 48
		cfg.SlabBytes = 7 * testPage * 48
		cfg.DiskBytes = 40 * size
		cfg.QueuePages = 8
		cfg.LockWait = time.Minute
		cfg.Exact = exact
		stores = append(stores, open(t, cfg))
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	var asked [2]int64
	for i, r := range stores {
		for c := range 3 {
			callers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), uint64(c)))
				for range 150 {
					tokens := join(seq(rnd.IntN(4), 4+rnd.IntN(20)), seq(9, rnd.IntN(6)))
					salt := []string{"", "tenant"}[rnd.IntN(2)]
					ctx, cancel := context.WithCancel(t.Context())
					if rnd.IntN(8) == 0 {
						cancel()
					}
					p := r.Lookup(Query{Prompt: r.NewPrompt(tokens), Salt: salt})
					r.Load(ctx, p)
					cancel()
					if err := verify(r.Store, p, tokens); err != nil {
						t.Error(err)
					}
					outcome := []Outcome{Used, Used, Used, Used, Used, Unused, Short}[rnd.IntN(7)]
					r.Release(p, outcome)
					if outcome != Unused {
						mu.Lock()
						asked[i] += int64(len(tokens))
						mu.Unlock()
					}
					if _, err := r.Save(Save{Prompt: r.NewPrompt(tokens), Salt: salt, State: state(t, tokens), Tail: rnd.IntN(2) == 0}); err != nil {
						t.Error(err)
					}
					if st := r.Stats(); st.HostUsed > st.HostBudget || st.HostMapped > st.HostBudget || st.Queued.Pages > 8 {
						t.Errorf("%+v", st)
					}
				}
			})
		}
	}
	callers.Wait()
	for i, r := range stores {
		r.flush()
		st := r.Stats()
		told := st.HitHostTokens + st.HitDiskTokens + st.RecomputedTokens
		for _, n := range st.MissTokens {
			told += n
		}
		if told != asked[i] {
			t.Errorf("%d tokens were asked for, %d are accounted for: %+v", asked[i], told, st)
		}
		checkBooks(t, r)
	}
	all := inDirectory(t, dir, 2)
	if all.Bytes > 40*size+2*size {
		t.Errorf("%d bytes are on disk, the limit is %d", all.Bytes, 40*size)
	}
	for _, q := range quarantined(t, dir) {
		if q != string(ReasonRestoreShort) {
			t.Errorf("set aside for %s", q)
		}
	}
}

// verify is check for callers that are not the test's goroutine.
func verify(s *Store, p *Plan, tokens []int32) error {
	if p.Tokens == 0 {
		return nil
	}
	blob, err := s.cfg.Layout.Join(nil, 2, p.Pieces())
	if err != nil {
		return err
	}
	cold := newFakeEngine()
	cold.decode(2, tokens[:p.Tokens]...)
	if !bytes.Equal(blob, cold.state(2)) {
		return fmt.Errorf("the pages of %v restore another state than a cold run", tokens)
	}
	return nil
}

// checkBooks counts a store's pages in the index.
func checkBooks(t *testing.T, r *rig) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var host, disk Tier
	var used int64
	for _, list := range r.index.byHash {
		for _, e := range list {
			if e.host.block != nil {
				host.Pages++
				host.Bytes += int64(len(e.host.block.mem))
				used += int64(e.host.block.quarters * r.host.arena.quarter * r.cell)
			}
			if e.disk.on {
				disk.Pages++
				disk.Bytes += e.disk.bytes
			}
			if e.host.block == nil && !e.disk.on {
				t.Errorf("a page that is nowhere is in the index: %+v", e)
			}
			if e.host.pins != 0 || e.host.writing || e.host.dead || e.disk.queued || e.gone {
				t.Errorf("an idle page is in use: %+v", e)
			}
		}
	}
	if (host != Tier{r.host.pages, r.host.payload}) || used != r.host.arena.usedBytes || r.host.pinned != 0 || r.host.filling != 0 {
		t.Errorf("the host tier says %d pages, %d bytes, %d used; the index %+v, %d", r.host.pages, r.host.payload, r.host.arena.usedBytes, host, used)
	}
	if disk != r.count.disk || disk.Pages != len(r.byFile) {
		t.Errorf("the disk tier says %+v, %d files; the index %+v", r.count.disk, len(r.byFile), disk)
	}
	if len(r.condemned)+len(r.loading)+len(r.chores) != 0 {
		t.Errorf("%d condemned, %d loading, %d chores", len(r.condemned), len(r.loading), len(r.chores))
	}
	n := 0
	for e := r.host.oldest; e != nil; e = e.host.newer {
		n++
	}
	if n != host.Pages {
		t.Errorf("%d pages may be evicted, there are %d", n, host.Pages)
	}
}
