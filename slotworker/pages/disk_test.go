package pages

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
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

// pageFileBytes is the size of a full page's file in tests.
func pageFileBytes(t *testing.T) int64 {
	r := open(t, testConfig(t.TempDir()))
	r.save(seq(1, 4), "")
	r.flush()
	defer r.close()
	return r.Stats().Disk.Bytes
}

func TestDiskEvictsWhatWasUsedLongestAgo(t *testing.T) {
	size := pageFileBytes(t)
	cfg := testConfig(t.TempDir())
	cfg.DiskBytes = 20 * size
	r := open(t, cfg)
	var names []string
	for g := range 19 {
		r.save(seq(g, 4), "")
		names = append(names, filepath.Join(cfg.Dir, nameOf(NewSpace(testIdentity, ""), 0, r.NewPrompt(seq(g, 4)).Hash(0)).String()))
	}
	r.close()
	age(t, names)
	r = open(t, cfg)
	r.use(seq(0, 5), "", false) // marks the oldest as used
	r.flush()
	for g := 19; g < 23; g++ {
		r.save(seq(g, 4), "")
		r.flush()
		if st := r.Stats(); st.DiskAll.Bytes > cfg.DiskBytes {
			t.Fatalf("%d bytes are on disk", st.DiskAll.Bytes)
		}
	}
	checkDirectory(t, r)
	if st := r.Stats(); st.Disk != st.DiskAll {
		t.Errorf("the index knows of %+v, the directory has %+v", st.Disk, st.DiskAll)
	}
	r.close()
	r = open(t, cfg)
	for g, want := range map[int]int{0: 4, 1: 0, 2: 0, 10: 4, 19: 4, 22: 4} {
		if p := r.use(seq(g, 5), "", false); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens were restored", g, p.Tokens)
		}
	}
}

// A smaller limit than before holds from the start.
func TestDiskShrinksAtStart(t *testing.T) {
	cfg := testConfig(t.TempDir())
	r := open(t, cfg)
	r.save(seq(1, 80), "")
	r.close()
	cfg.DiskBytes = r.Stats().Disk.Bytes / 2
	r = open(t, cfg)
	r.flush()
	checkDirectory(t, r)
	if st := r.Stats(); st.DiskAll.Bytes > cfg.DiskBytes || st.DiskAll.Pages == 0 || st.Disk != st.DiskAll {
		t.Fatalf("%+v", st)
	}
}

// Marks of use reach the disk also when a page is served from host memory.
func TestHostHitsKeepPagesOnDisk(t *testing.T) {
	r := open(t, testConfig(t.TempDir()))
	r.save(seq(1, 4), "")
	r.flush()
	name := files(t, r.dir)[0]
	age(t, []string{name})
	r.mu.Lock()
	for _, e := range r.byFile {
		e.disk.touched = time.Now().Add(-2 * touchEvery)
	}
	r.mu.Unlock()
	if p := r.use(seq(1, 5), "", false); p.DiskTokens != 0 {
		t.Fatal("the page was read from disk")
	}
	r.flush()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(info.ModTime()) > 10*time.Minute {
		t.Error("the page looks unused")
	}
}

func TestOlderVersionsGoFirst(t *testing.T) {
	cfg := testConfig(t.TempDir())
	r := open(t, cfg)
	r.save(seq(1, 4), "")
	r.flush()
	name := files(t, cfg.Dir)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(b[8:], fileVersion-1)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.close()
	r = open(t, cfg)
	r.flush()
	r.want(r.use(seq(1, 5), "", false), 0, ReasonTokenHash, -1)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.ModTime().Unix() != 0 || len(quarantined(t, cfg.Dir)) != 0 {
		t.Errorf("mode %v, in quarantine %v", info.ModTime(), quarantined(t, cfg.Dir))
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	r := open(t, testConfig(t.TempDir()))
	r.save(seq(1, 4*(quarantineMost+9)), "")
	r.flush()
	for _, f := range files(t, r.dir) {
		if err := os.WriteFile(f, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, testConfig(r.dir))
	again.flush()
	if n := len(quarantined(t, r.dir)); n != quarantineMost {
		t.Errorf("%d files are in quarantine", n)
	}
	if all := inDirectory(t, r.dir, 2); all.Pages != 0 || again.Stats().DiskAll != all {
		t.Errorf("%+v are left, the books say %+v", all, again.Stats().DiskAll)
	}
}

// A sandbox may forbid that a file changes its directory.
func TestQuarantineWithoutRename(t *testing.T) {
	cfg := testConfig(t.TempDir())
	ops := newFaultyFiles()
	ops.set(opQuarantine+".rename", syscall.EXDEV)
	cfg.Files = ops
	r := open(t, cfg)
	r.save(seq(1, 4), "")
	r.flush()
	p := r.plan(seq(1, 5), "", false)
	r.Release(p, Short)
	r.flush()
	if q := quarantined(t, r.dir); !slices.Equal(q, []string{string(ReasonRestoreShort)}) {
		t.Fatalf("in quarantine: %v", q)
	}
	if all := inDirectory(t, r.dir, 1); all.Pages != 0 {
		t.Fatalf("%+v are left", all)
	}
}

// Each kind of file operation fails once: requests go on, nothing half written is
// served, and once the disk is well again pages that are used get there.
func TestDiskTrouble(t *testing.T) {
	for _, op := range []string{opWrite + ".create", opWrite + ".rename", opUsage + ".create", opUsage + ".rename", "full"} {
		t.Run(op, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			ops := newFaultyFiles()
			cfg.Files = ops
			cfg.RetryAfter = time.Nanosecond
			r := open(t, cfg)
			r.flush()
			if op == "full" {
				ops.setLeft(700) // the first page and a part of the second
			} else {
				ops.set(op, errNoSpace)
			}
			r.save(seq(1, 16), "")
			r.flush()
			st := r.Stats()
			if st.WriteErrors == 0 || len(r.errors()) == 0 {
				t.Fatalf("%+v, %v", st, r.errors())
			}
			r.want(r.use(seq(1, 17), "", false), 16, ReasonTokenHash, -1)
			r.flush()
			if op != opUsage+".create" && op != opUsage+".rename" {
				checkDirectory(t, r)
			}
			fresh := open(t, testConfig(cfg.Dir))
			want := 0
			if op == "full" {
				want = 4
			}
			if p := fresh.use(seq(1, 17), "", false); p.Tokens != want {
				t.Errorf("%d tokens are on disk", p.Tokens)
			}
			fresh.close()

			ops.setLeft(-1)
			ops.set(op, nil)
			r.use(seq(1, 17), "", false)
			r.flush()
			checkDirectory(t, r)
			fresh = open(t, testConfig(cfg.Dir))
			fresh.want(fresh.use(seq(1, 17), "", false), 16, ReasonTokenHash, -1)
		})
	}
}

// After a failed write the disk is left alone for a while.
func TestWritingPauses(t *testing.T) {
	cfg := testConfig(t.TempDir())
	ops := newFaultyFiles()
	ops.set(opWrite+".create", errNoSpace)
	cfg.Files = ops
	cfg.RetryAfter = time.Hour
	r := open(t, cfg)
	r.save(seq(1, 40), "")
	r.flush()
	if st := r.Stats(); st.WriteErrors != 1 || st.Dropped != 9 || st.Queued.Pages != 0 {
		t.Errorf("%+v", st)
	}
}

// The directory cannot be made: the host tier works all the same.
func TestDirectoryCannotBeMade(t *testing.T) {
	cfg := testConfig(t.TempDir())
	ops := newFaultyFiles()
	ops.set(opOpenDir+".mkdir", errNoSpace)
	cfg.Files = ops
	r := open(t, cfg)
	r.save(seq(1, 8), "")
	r.want(r.use(seq(1, 8), "", false), 7, "", -1)
	if len(r.errors()) == 0 {
		t.Error("nobody was told")
	}
}

// Somebody who holds the directory for ever, as a stopped process does, costs the
// disk tier but nothing else.
func TestDirectoryIsHeld(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.LockWait = time.Millisecond
	cfg.RetryAfter = time.Nanosecond
	other := flock.New(filepath.Join(cfg.Dir, lockName))
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	r := open(t, cfg)
	r.save(seq(1, 8), "")
	r.flush()
	r.want(r.use(seq(1, 8), "", false), 7, "", -1)
	if st := r.Stats(); st.WriteErrors == 0 || st.Disk.Pages != 0 {
		t.Errorf("%+v", st)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	r.use(seq(1, 8), "", false)
	r.flush()
	if st := r.Stats(); st.Disk.Pages != 2 {
		t.Errorf("%+v", st)
	}
}

// The queue is bounded, and its oldest page goes first.
func TestQueueDropsItsOldest(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.QueuePages = 3
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	cfg.Files = &blockingFiles{FileOps: NewOSFiles(), entered: entered, block: block}
	r := open(t, cfg)
	r.flush()
	r.save(seq(0, 4), "")
	<-entered // the writer is busy with the first page
	for g := 1; g < 6; g++ {
		r.save(seq(g, 4), "")
	}
	st := r.Stats()
	if st.Queued.Pages != 3 || st.Dropped != 2 || st.Queued.Bytes != 3*4*48 {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Flush(ctx); err == nil {
		t.Error("a flush ended before everything was written")
	}
	close(block)
	r.flush()
	fresh := open(t, testConfig(cfg.Dir))
	for g, want := range []int{4, 0, 0, 4, 4, 4} {
		if p := fresh.use(seq(g, 5), "", false); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens are on disk", g, p.Tokens)
		}
	}
}

// blockingFiles holds the first page that is written.
type blockingFiles struct {
	FileOps
	entered chan<- struct{}
	block   <-chan struct{}
}

func (f *blockingFiles) Create(op, name string) (File, error) {
	if op == opWrite {
		select {
		case f.entered <- struct{}{}:
		default:
		}
		<-f.block
	}
	return f.FileOps.Create(op, name)
}

// When memory runs out before the disk has kept up, pages that wait to be written
// give way; the one that is being written does not.
func TestQueueGivesWayToMemory(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.HostBytes = 4 * testPage * 48
	block, entered := make(chan struct{}), make(chan struct{}, 1)
	cfg.Files = &blockingFiles{FileOps: NewOSFiles(), entered: entered, block: block}
	r := open(t, cfg)
	r.flush()
	r.save(seq(0, 4), "")
	<-entered
	for g := 1; g < 9; g++ {
		if n := r.save(seq(g, 4), ""); n != 1 {
			t.Fatalf("prompt %d was not kept", g)
		}
	}
	if st := r.Stats(); st.Queued.Pages != 3 || st.Dropped != 5 || st.Host.Pages != 4 {
		t.Errorf("%+v", st)
	}
	close(block)
	r.flush()
	r.close()
	fresh := open(t, testConfig(cfg.Dir))
	for g, want := range map[int]int{0: 4, 1: 0, 5: 0, 6: 4, 8: 4} {
		if p := fresh.use(seq(g, 5), "", false); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens are on disk", g, p.Tokens)
		}
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
	p := b.use(seq(1, 11), "", false)
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
	c.want(c.use(seq(2, 8), "", false), 7, "", -1)
	c.want(c.use(seq(1, 11), "", false), 0, ReasonTokenHash, -1)
	if q := quarantined(t, dir); len(q) != 0 {
		t.Errorf("in quarantine: %v", q)
	}
}

// Two stores with little memory and disk, several callers each, the same prompts:
// every restored state is that of a cold run, no limit is passed, and at the end
// the books of the memory and the directory are right.
func TestStoresUnderLoad(t *testing.T) {
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
					exact := rnd.IntN(3) == 0
					salt := []string{"", "tenant"}[rnd.IntN(2)]
					ctx, cancel := context.WithCancel(t.Context())
					if rnd.IntN(8) == 0 {
						cancel()
					}
					p := r.Lookup(Query{Prompt: r.NewPrompt(tokens), Salt: salt, Exact: exact})
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
	blob, err := s.Layout().Join(nil, 2, p.Pieces())
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
