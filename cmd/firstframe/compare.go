package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// compared is one request among several that are shown side by side.
type compared struct {
	name string
	m    shared.Measured
}

// caseWidth is the column of names in a comparison.
const caseWidth = 21

// compare shows several requests by their runtime phases: as numbers, and as
// bars on one scale.
func (b *bars) compare(cases []compared) {
	groups := []shared.PhaseGroup{shared.GroupSlot, shared.GroupActivation, shared.GroupContext, shared.GroupDelivery, ""}
	fmt.Fprintln(b.out, b.paint(padded("  ms", caseWidth)+"first chunk    slot  activation  context  delivery   other", ansiBold))
	longest := time.Duration(0)
	for _, c := range cases {
		longest = max(longest, c.m.FirstChunk)
		fmt.Fprintf(b.out, "%s%11.2f", padded("  "+c.name, caseWidth), shared.Milliseconds(c.m.FirstChunk))
		for i, width := range []int{8, 12, 9, 10, 8} {
			number := fmt.Sprintf("%*.2f", width, shared.Milliseconds(grouped(c.m.Phases, groups[i])))
			fmt.Fprint(b.out, b.paint(number, ansi(groups[i])))
		}
		fmt.Fprintln(b.out)
	}
	fmt.Fprintln(b.out)
	for _, c := range cases {
		fmt.Fprintf(b.out, "%s%s %s\n", padded("  "+c.name, caseWidth), b.stacked(c.m, longest, groups), millis(c.m.FirstChunk))
	}
	fmt.Fprintln(b.out, b.paint(fmt.Sprintf("\n  All bars on one linear scale: the longest is %s.", millis(longest)), ansiFaint))
}

// stacked is a request's bar, one piece for each runtime phase. A piece has the
// whole cells that its end reaches and that no piece before it has.
func (b *bars) stacked(m shared.Measured, longest time.Duration, groups []shared.PhaseGroup) string {
	const width = 78 - caseWidth - 13
	full, thin := b.pick("█", "#"), b.pick("▏", "|")
	var text strings.Builder
	used, end := 0, 0.0
	for _, g := range groups {
		end += portion(grouped(m.Phases, g), longest) * width
		if cells := int(end+0.5) - used; cells > 0 {
			text.WriteString(b.paint(strings.Repeat(full, cells), ansi(g)))
			used += cells
		}
	}
	if used == 0 {
		return b.paint(thin, ansi(shared.GroupContext))
	}
	return text.String()
}

// grouped is the time of all phases of one runtime phase.
func grouped(p shared.Phases, g shared.PhaseGroup) time.Duration {
	var sum time.Duration
	for _, d := range p.List() {
		if d.Phase.Group() == g {
			sum += d.Duration
		}
	}
	return sum
}
