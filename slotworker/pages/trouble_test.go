package pages

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

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
	p := r.plan(seq(1, 5), "")
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
			r.want(r.use(seq(1, 17), ""), 16, ReasonTokenHash, -1)
			r.flush()
			if op != opUsage+".create" && op != opUsage+".rename" {
				checkDirectory(t, r)
			}
			fresh := open(t, testConfig(cfg.Dir))
			want := 0
			if op == "full" {
				want = 4
			}
			if p := fresh.use(seq(1, 17), ""); p.Tokens != want {
				t.Errorf("%d tokens are on disk", p.Tokens)
			}
			fresh.close()

			ops.setLeft(-1)
			ops.set(op, nil)
			r.use(seq(1, 17), "")
			r.flush()
			checkDirectory(t, r)
			fresh = open(t, testConfig(cfg.Dir))
			fresh.want(fresh.use(seq(1, 17), ""), 16, ReasonTokenHash, -1)
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
	r.want(r.use(seq(1, 8), ""), 7, "", -1)
	<-r.Scanned()
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
	r.want(r.use(seq(1, 8), ""), 7, "", -1)
	if st := r.Stats(); st.WriteErrors == 0 || st.Disk.Pages != 0 {
		t.Errorf("%+v", st)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	r.use(seq(1, 8), "")
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
		if p := fresh.use(seq(g, 5), ""); p.Tokens != want {
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
	p := r.Lookup(Query{Prompt: r.NewPrompt(seq(0, 5))})
	r.check(p, seq(0, 5))
	if p.Tokens != 4 {
		t.Errorf("%d tokens of the page that is being written were restored", p.Tokens)
	}
	r.Release(p, Used)
	close(block)
	r.flush()
	checkBooks(t, r)
	r.close()
	fresh := open(t, testConfig(cfg.Dir))
	for g, want := range map[int]int{0: 4, 1: 0, 5: 0, 6: 4, 8: 4} {
		if p := fresh.use(seq(g, 5), ""); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens are on disk", g, p.Tokens)
		}
	}
}
