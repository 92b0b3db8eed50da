package pages

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func probe(e *fakeEngine, from, to int32) Probe {
	return Probe{
		IO: e, From: from, To: to,
		Fill: func(seq int32, n int) error {
			for i := range n {
				e.decode(seq, int32(i))
			}
			return nil
		},
		Next: func(seq int32, pos int) ([]float32, error) {
			if pos != len(e.seqs[seq]) {
				return nil, errors.New("wrong position")
			}
			return e.decode(seq, 7), nil
		},
	}
}

func TestProve(t *testing.T) {
	for _, to := range []int32{2, 0} { // another sequence, and the only one
		e := newFakeEngine()
		layout, err := Prove(probe(e, 0, to))
		if err != nil {
			t.Fatal(err)
		}
		if !layout.Equal(testLayout) {
			t.Fatalf("%+v", layout)
		}
		if len(e.seqs[0]) != 0 || len(e.seqs[to]) != 0 {
			t.Fatal("the sequences are not empty afterwards")
		}
	}
}

// Memory that does not do what paging needs of it is found out.
func TestProveFails(t *testing.T) {
	cases := map[string]struct {
		spoil func(*fakeEngine, *Probe)
		says  string
	}{
		"transposed":            {func(e *fakeEngine, _ *Probe) { e.transposed = 1 }, "flash attention"},
		"unified":               {func(e *fakeEngine, _ *Probe) { e.unified = true }, "shared between sequences"},
		"unified, from another": {func(e *fakeEngine, p *Probe) { e.unified = true; p.From, p.To = 2, 0 }, "shared between sequences"},
		"no cut":                {func(e *fakeEngine, _ *Probe) { e.keepsCut = true }, "cannot be cut"},
		"takes short":           {func(e *fakeEngine, _ *Probe) { e.greedy = true }, "cut short"},
		"drops a cell": {func(e *fakeEngine, _ *Probe) {
			e.spoil = func(e *fakeEngine, seq int32) { e.seqs[seq] = e.seqs[seq][:len(e.seqs[seq])-1] }
		}, "tokens instead of"},
		"changes a byte": {func(e *fakeEngine, _ *Probe) {
			e.spoil = func(e *fakeEngine, seq int32) { e.seqs[seq][3][5]++ }
		}, "reads back differently"},
		"other logits": {func(e *fakeEngine, p *Probe) {
			next, calls := p.Next, 0
			p.Next = func(seq int32, pos int) ([]float32, error) {
				l, err := next(seq, pos)
				calls++
				l[0] += float32(calls) * 1e-3
				return l, err
			}
		}, "logits"},
		"no numbers": {func(e *fakeEngine, p *Probe) {
			p.Next = func(int32, int) ([]float32, error) { return []float32{float32(math.NaN())}, nil }
		}, "logits"},
		"fill": {func(_ *fakeEngine, p *Probe) { p.Fill = func(int32, int) error { return errors.New("boom") } }, "boom"},
		"decode": {func(_ *fakeEngine, p *Probe) {
			p.Next = func(int32, int) ([]float32, error) { return nil, errors.New("boom") }
		}, "boom"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine()
			p := probe(e, 0, 2)
			c.spoil(e, &p)
			_, err := Prove(p)
			if !errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v", err)
			}
			for i, cells := range e.seqs {
				if len(cells) != 0 {
					t.Errorf("sequence %d keeps %d tokens", i, len(cells))
				}
			}
		})
	}
}
