package pages

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Blocks never overlap, every quarter is counted once, and room that is free is found.
func TestArenaAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.IntRange(1, 9).Draw(t, "page")
		cell := rapid.IntRange(1, 3).Draw(t, "cell")
		a := newArena(cell, page, int64(6*((page+3)/4)*4*cell), 2*((page+3)/4)*4*cell)
		var blocks []*block
		stamp := byte(0)
		stamps := map[*block]byte{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if n := a.nextSlab(); n > 0 {
					a.add(make([]byte, n*a.frameBytes()))
				}
			case 1:
				cells := rapid.IntRange(1, page).Draw(t, "cells")
				b := a.take(cells)
				if b == nil {
					need := (cells + a.quarter - 1) / a.quarter
					for run := need; run <= frameQuarters; run++ {
						if len(a.free[run]) > 0 {
							t.Fatal("free room was not found")
						}
					}
					continue
				}
				if len(b.mem) != cells*cell {
					t.Fatalf("a block of %d bytes for %d cells", len(b.mem), cells)
				}
				stamp++
				for i := range b.mem {
					b.mem[i] = stamp
				}
				stamps[b] = stamp
				blocks = append(blocks, b)
			case 2:
				if len(blocks) > 0 {
					i := rapid.IntRange(0, len(blocks)-1).Draw(t, "victim")
					a.give(blocks[i])
					blocks = slices.Delete(blocks, i, i+1)
				}
			}
			var used int64
			for _, b := range blocks {
				used += int64(b.quarters * a.quarter * cell)
				for _, v := range b.mem {
					if v != stamps[b] {
						t.Fatal("two blocks overlap")
					}
				}
			}
			if used != a.usedBytes {
				t.Fatalf("%d bytes are used, %d are counted", used, a.usedBytes)
			}
			if a.frames > a.most || a.frames > 6 {
				t.Fatalf("%d frames", a.frames)
			}
		}
		for _, b := range blocks {
			a.give(b)
		}
		if len(a.free[frameQuarters]) != a.frames || a.usedBytes != 0 {
			t.Fatal("an unused arena has used frames")
		}
	})
}

// small is a store whose host tier has room for a number of pages.
func small(t *testing.T, dir string, pages int) *rig {
	cfg := testConfig(dir)
	cfg.HostBytes = int64(pages * testPage * testLayout.CellBytes())
	cfg.SlabBytes = int(cfg.HostBytes) / 2
	return open(t, cfg)
}

func TestHostEvictsWhatWasUsedLongestAgo(t *testing.T) {
	r := small(t, "", 4)
	for g := range 4 {
		r.save(seq(g, 4), "")
	}
	r.use(seq(0, 5), "")
	r.save(seq(4, 4), "")
	for g, want := range []int{4, 0, 4, 4, 4} {
		if p := r.use(seq(g, 5), ""); p.Tokens != want {
			t.Errorf("prompt %d: %d tokens were restored", g, p.Tokens)
		}
	}
	if st := r.Stats(); st.Evicted != 1 || st.Host.Pages != 4 || st.HostMapped > st.HostBudget {
		t.Errorf("%+v", st)
	}
}

// A prompt's first page outlives its later ones, which nobody could use without it.
func TestHostEvictsFromTheEnd(t *testing.T) {
	r := small(t, "", 4)
	r.save(seq(1, 16), "")
	r.save(seq(2, 4), "")
	if p := r.use(seq(1, 17), ""); p.Tokens != 12 {
		t.Errorf("%d tokens were restored", p.Tokens)
	}
	r.save(seq(3, 8), "")
	if p := r.use(seq(1, 17), ""); p.Tokens != 8 {
		t.Errorf("%d tokens were restored", p.Tokens)
	}
}

func TestHostKeepsWhatIsInUse(t *testing.T) {
	r := small(t, "", 4)
	r.save(seq(1, 12), "")
	p := r.plan(seq(1, 13), "")
	if n := r.save(seq(2, 12), ""); n != 1 {
		t.Errorf("%d pages were kept beside those in use", n)
	}
	r.save(seq(3, 12), "")
	r.check(p, seq(1, 13))
	r.Release(p, Used)
	r.Release(p, Used) // only once
	if n := r.save(seq(4, 16), ""); n != 4 {
		t.Errorf("%d pages were kept", n)
	}
	if st := r.Stats(); st.HostPinned != 0 || st.HostUsed != st.HostBudget {
		t.Errorf("%+v", st)
	}
}

func TestHostStaysSmallerWithoutMemory(t *testing.T) {
	cfg := testConfig("")
	memory := &heapMemory{}
	cfg.Memory = memory
	cfg.SlabBytes = 2 * testPage * testLayout.CellBytes()
	told := make(chan struct{}, 1)
	cfg.OnError = func(error) {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	r := open(t, cfg)
	r.save(seq(1, 8), "")
	memory.mu.Lock()
	memory.fail = true
	memory.mu.Unlock()
	for g := range 20 {
		r.save(seq(g, 8), "")
	}
	if p := r.use(seq(19, 8), ""); p.Tokens != 7 {
		t.Errorf("%d tokens were restored", p.Tokens)
	}
	<-told // by the goroutine that would have made more room
	if st := r.Stats(); st.HostMapped >= st.HostBudget || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"identity": func(c *Config) { c.Identity.SlotRevision = "" },
		"page":     func(c *Config) { c.PageTokens = 0 },
		"layout":   func(c *Config) { c.Layout = Layout{} },
		"host":     func(c *Config) { c.HostBytes = 191 },
		"disk":     func(c *Config) { c.Dir, c.DiskBytes = "x", 0 },
		"queue":    func(c *Config) { c.QueuePages = -1 },
	} {
		cfg := testConfig("")
		spoil(&cfg)
		if s, err := Open(cfg); err == nil || s != nil {
			t.Errorf("%s: a store was opened", name)
		}
	}
	if err := testConfig("").Validate(); err != nil {
		t.Error(err)
	}
}

// Memory from the system can be written and given back.
func TestMappedMemory(t *testing.T) {
	m := NewMappedMemory()
	b, err := m.Map(1 << 20)
	if err != nil || len(b) != 1<<20 {
		t.Fatal(len(b), err)
	}
	b[0], b[len(b)-1] = 1, 1
	if err := m.Unmap(b); err != nil {
		t.Fatal(err)
	}
}
