package slotworker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// planned describes a step: sequence, first position and rows of each share.
func planned(rows []Row, takes []take) []string {
	var out []string
	at := 0
	for _, t := range takes {
		end := ""
		if t.logits >= 0 {
			end = fmt.Sprintf(" logits %d", t.logits)
		}
		out = append(out, fmt.Sprintf("seq %d at %d rows %d%s", t.seq.id, rows[at].Pos, t.count, end))
		at += t.count
	}
	return out
}

func TestPlan(t *testing.T) {
	seq := func(id int32, prompt, filled int) *sequence {
		return &sequence{id: id, filled: filled, next: 7, req: &request{prompt: make([]int32, prompt)}}
	}
	tests := []struct {
		name string
		seqs []*sequence
		want []string
	}{
		{"nothing to do", nil, nil},
		{"first chunk", []*sequence{seq(0, 100, 0)}, []string{"seq 0 at 0 rows 32"}},
		{"middle chunk", []*sequence{seq(0, 100, 32)}, []string{"seq 0 at 32 rows 32"}},
		{"last chunk", []*sequence{seq(0, 100, 96)}, []string{"seq 0 at 96 rows 4 logits 3"}},
		{"chunk that ends the prompt exactly", []*sequence{seq(0, 64, 32)}, []string{"seq 0 at 32 rows 32 logits 31"}},
		{"decode", []*sequence{seq(0, 5, 9)}, []string{"seq 0 at 9 rows 1 logits 0"}},
		{
			"decoding goes on beside a prefill, whose chunk stays whole",
			[]*sequence{seq(2, 100, 64), seq(0, 5, 9), seq(1, 5, 5)},
			[]string{"seq 0 at 9 rows 1 logits 0", "seq 1 at 5 rows 1 logits 1", "seq 2 at 64 rows 32"},
		},
		{
			"prefills wait for the one admitted first",
			[]*sequence{seq(1, 40, 32), seq(0, 100, 0)},
			[]string{"seq 1 at 32 rows 8 logits 7"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, takes := plan(tt.seqs, 32, 0, nil, nil)
			if diff := cmp.Diff(tt.want, planned(rows, takes)); diff != "" {
				t.Error(diff)
			}
			for i, r := range rows {
				wanted := false
				for _, tk := range takes {
					wanted = wanted || tk.logits == i
				}
				if r.Logits != wanted {
					t.Errorf("row %d: logits %v", i, r.Logits)
				}
			}
		})
	}
}
