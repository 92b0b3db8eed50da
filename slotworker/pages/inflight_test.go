package pages

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInflightBranches(t *testing.T) {
	f := NewInflight(testPage, true)
	c := newChain(testPage, false, HashSHA256)
	prompt := func(parts ...[]int32) *Prompt { return &Prompt{chain: c, tokens: join(parts...)} }
	trunk := seq(1, 16)
	expect := func(got, want Turn) {
		t.Helper()
		if got != want {
			t.Fatalf("%+v instead of %+v", got, want)
		}
	}
	expectIDs := func(got []RequestID, want ...RequestID) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%v instead of %v", got, want)
		}
	}
	expect(f.Join(1, prompt(trunk, seq(2, 5)), "", 0), Turn{})
	expect(f.Join(2, prompt(trunk, seq(3, 9)), "", 0), Turn{Wait: true, For: 1, Until: 16})
	expect(f.Join(3, prompt(trunk, seq(3, 6), seq(4, 9)), "", 0), Turn{Wait: true, For: 2, Until: 20})
	expect(f.Join(4, prompt(trunk, seq(2, 9)), "", 0), Turn{Wait: true, For: 1, Until: 21}) // with its tail
	expect(f.Join(5, prompt(trunk), "tenant", 0), Turn{})
	expect(f.Join(6, prompt(seq(9, 30)), "", 0), Turn{})
	if f.Waiting() != 3 {
		t.Fatal(f.Waiting())
	}
	expectIDs(f.Stored(1, 12))
	expectIDs(f.Stored(1, 16), 2)
	expect(f.Again(2, 16), Turn{})
	// The leader is cancelled: its other follower goes on by itself.
	expectIDs(f.Leave(1), 4)
	expect(f.Again(4, 16), Turn{})
	// The second fails before it has stored its part.
	expectIDs(f.Leave(2), 3)
	expect(f.Again(3, 16), Turn{})
	expectIDs(f.Leave(3))
	expectIDs(f.Leave(4))

	// Pages that were stored and evicted again are no reason to wait.
	expect(f.Join(7, prompt(trunk, seq(2, 5)), "", 0), Turn{})
	expectIDs(f.Stored(7, 16))
	expect(f.Join(8, prompt(trunk, seq(3, 5)), "", 0), Turn{})

	exact := NewInflight(testPage, false)
	expect(exact.Join(1, prompt(trunk, seq(2, 3)), "", 0), Turn{})
	expect(exact.Join(2, prompt(trunk, seq(2, 3)), "", 0), Turn{Wait: true, For: 1, Until: 16})
	expect(exact.Join(3, prompt(trunk), "", 12), Turn{Wait: true, For: 1, Until: 16})
}

// simulation runs requests over an Inflight and a store that forgets nothing.
type simulation struct {
	t        *rapid.T
	f        *Inflight
	pages    map[string]bool // full prefixes that are stored
	jobs     []*job
	computed int // pages
	wasted   int // pages that were computed more than once
}

type job struct {
	id     RequestID
	prompt *Prompt
	turn   Turn
	again  bool // its wait is over, it has not asked again
	done   int  // pages
	over   bool
}

func (s *simulation) key(p *Prompt, pages int) string { return p.Hash(pages - 1).String() }

func (s *simulation) covered(p *Prompt) int {
	n := 0
	for n < p.FullPages() && s.pages[s.key(p, n+1)] {
		n++
	}
	return n
}

func (s *simulation) wake(ids []RequestID) {
	for _, id := range ids {
		j := s.jobs[id]
		if j.over || !j.turn.Wait {
			s.t.Fatalf("request %d was let go while it did not wait", id)
		}
		j.turn, j.again = Turn{}, true
	}
}

func (s *simulation) took(j *job, turn Turn) {
	j.turn, j.again = turn, false
	if !turn.Wait {
		j.done = s.covered(j.prompt)
		return
	}
	on := s.jobs[turn.For]
	if turn.For >= j.id || on.over {
		s.t.Fatalf("request %d waits for %d", j.id, turn.For)
	}
	if n := common(on.prompt.tokens, j.prompt.tokens); turn.Until > n || turn.Until <= 3*s.covered(j.prompt) {
		s.t.Fatalf("request %d waits for %d tokens, shares %d, has %d pages", j.id, turn.Until, n, s.covered(j.prompt))
	}
}

// step lets a request that does not wait compute one page.
func (s *simulation) step(j *job) {
	if j.done < j.prompt.FullPages() {
		j.done++
		s.computed++
		if k := s.key(j.prompt, j.done); s.pages[k] {
			s.wasted++
		} else {
			s.pages[k] = true
		}
		s.wake(s.f.Stored(j.id, 3*j.done))
	}
	if j.done == j.prompt.FullPages() {
		s.leave(j)
	}
}

func (s *simulation) leave(j *job) {
	j.over = true
	s.wake(s.f.Leave(j.id))
}

// Whatever comes, stops and is cancelled in whatever order: somebody can always go
// on, and no page is computed twice.
func TestInflightComputesEachPageOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChain(3, false, HashSHA256)
		s := &simulation{t: t, f: NewInflight(3, false), pages: map[string]bool{}}
		tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 16)
		pick := func(may func(*job) bool) *job {
			var all []*job
			for _, j := range s.jobs {
				if !j.over && may(j) {
					all = append(all, j)
				}
			}
			if len(all) == 0 {
				return nil
			}
			return rapid.SampledFrom(all).Draw(t, "job")
		}
		ready := func(j *job) bool { return !j.turn.Wait && !j.again }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				j := &job{id: RequestID(len(s.jobs)), prompt: &Prompt{chain: c, tokens: tokens.Draw(t, "tokens")}}
				s.jobs = append(s.jobs, j)
				s.took(j, s.f.Join(j.id, j.prompt, "", 3*s.covered(j.prompt)))
			case 1:
				if j := pick(func(*job) bool { return true }); j != nil {
					s.leave(j) // cancelled, in whatever state it is
				}
			case 2:
				if j := pick(func(j *job) bool { return j.again }); j != nil {
					s.took(j, s.f.Again(j.id, 3*s.covered(j.prompt)))
				}
			default:
				if j := pick(ready); j != nil {
					s.step(j)
				}
			}
		}
		for {
			for _, j := range s.jobs {
				if j.again && !j.over {
					s.took(j, s.f.Again(j.id, 3*s.covered(j.prompt)))
				}
			}
			j := pick(ready)
			if j == nil {
				break
			}
			s.step(j)
		}
		for _, j := range s.jobs {
			if !j.over {
				t.Fatalf("request %d waits for ever: %+v", j.id, j.turn)
			}
		}
		if s.wasted > 0 || s.f.Waiting() > 0 {
			t.Fatalf("%d of %d pages were computed twice, %d wait", s.wasted, s.computed, s.f.Waiting())
		}
	})
}
