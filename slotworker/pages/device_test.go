package pages

import (
	"maps"
	"testing"
)

func TestDeviceFindsWhatSequencesHold(t *testing.T) {
	c := newChain(testPage, false, HashSHA256)
	prompt := func(parts ...[]int32) *Prompt { return &Prompt{chain: c, tokens: join(parts...)} }
	d := NewDevice(3, testPage, false)
	best := func(p *Prompt, salt string, seq int32, tokens int) {
		t.Helper()
		if s, n := d.Best(p, salt); s != seq || n != tokens {
			t.Errorf("sequence %d holds %d tokens; want %d, %d", s, n, seq, tokens)
		}
	}
	best(prompt(seq(1, 9)), "", -1, 0)
	for want := range int32(3) {
		if s := d.Spare(); s != want {
			t.Fatalf("%d is spare", s)
		}
		d.Take(want)
	}
	if s := d.Spare(); s != -1 {
		t.Fatalf("%d is spare", s)
	}
	answered := prompt(seq(1, 9))
	answered.Append(seq(2, 5)...)
	d.Rest(1, answered, "", 13) // the last token was never decoded
	d.Rest(0, prompt(seq(1, 30)), "tenant", 30)
	best(prompt(seq(1, 9), seq(2, 20)), "", 1, 13)
	best(prompt(seq(1, 9)), "", 1, 8)
	best(prompt(seq(1, 6), seq(3, 6)), "", 1, 4)
	best(prompt(seq(1, 9)), "tenant", 0, 8)
	best(prompt(seq(1, 9)), "other", -1, 0)
	best(prompt(seq(4, 9)), "", -1, 0)
	if s := d.Spare(); s != 1 {
		t.Errorf("%d is spare", s)
	}
	d.Clear(2)
	if s := d.Spare(); s != 2 {
		t.Errorf("%d is spare", s)
	}
	d.Take(1)
	best(prompt(seq(1, 9)), "", -1, 0)

	d = NewDevice(1, testPage, true)
	d.Rest(0, prompt(seq(1, 16)), "", 12)
	best(prompt(seq(1, 12)), "", 0, 8)
	best(prompt(seq(1, 11), seq(2, 4)), "", 0, 8)
	best(prompt(seq(1, 40)), "", 0, 12)
}

// A plan whose tokens a sequence holds is counted as a hit on the device, and says
// why the rest is not known.
func TestHeldTokens(t *testing.T) {
	for _, c := range []struct {
		name     string
		exact    bool
		saved    []int32
		prompt   []int32
		held     int
		reason   Reason
		diverged int
		missed   int64
	}{
		{"nothing is known", false, nil, seq(1, 20), 10, ReasonTokenHash, -1, 10},
		{"all is held", false, nil, seq(1, 20), 19, "", -1, 0},
		{"all pages are held", true, nil, seq(1, 20), 16, "", -1, 0},
		{"more is known than is held", false, join(seq(1, 14), seq(2, 2)), join(seq(1, 14), seq(3, 6)), 12, ReasonTokenHash, 14, 8},
		{"less is known than is held", false, join(seq(1, 6), seq(2, 6)), seq(1, 20), 10, ReasonTokenHash, -1, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig("")
			cfg.Exact = c.exact
			r := open(t, cfg)
			if c.saved != nil {
				r.save(c.saved, "")
			}
			p := r.plan(c.prompt, "")
			p.Hold(c.held)
			r.want(p, c.held, c.reason, c.diverged)
			r.Release(p, Used)
			st := r.Stats()
			missed := map[Reason]int64{}
			if c.missed > 0 {
				missed[c.reason] = c.missed
			}
			if st.HitDeviceTokens != int64(c.held) || st.HitHostTokens != 0 || !maps.Equal(st.MissTokens, missed) ||
				st.RecomputedTokens != int64(len(c.prompt)-c.held)-c.missed {
				t.Errorf("%+v", st)
			}
		})
	}
}
