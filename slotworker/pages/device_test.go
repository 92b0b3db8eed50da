package pages

import "testing"

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
	if pages, tokens := d.Idle(); pages != 10 || tokens != 43 {
		t.Errorf("%d pages, %d tokens", pages, tokens)
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
