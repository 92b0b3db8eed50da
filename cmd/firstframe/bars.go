package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// barWidth is what names and numbers leave of 80 columns.
const barWidth = 44

// bars draws phases in a terminal as a waterfall: each bar begins where the one
// before it ended.
type bars struct {
	out     io.Writer
	color   bool
	unicode bool
}

func newBars(w io.Writer) *bars {
	terminal := isTerminal(w)
	return &bars{
		out:     w,
		color:   terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		unicode: os.Getenv("TERM") != "dumb",
	}
}

// ansi colours of the four runtime phases.
func ansi(g shared.PhaseGroup) string {
	switch g {
	case shared.GroupSlot:
		return "\x1b[34m"
	case shared.GroupActivation:
		return "\x1b[33m"
	case shared.GroupContext:
		return "\x1b[32m"
	case shared.GroupDelivery:
		return "\x1b[35m"
	default:
		return "\x1b[90m"
	}
}

// request draws one measured request.
func (b *bars) request(m shared.Measured) {
	how := "slot was resident"
	if !m.SlotHit {
		how = "slot was prepared for it"
	}
	left := fmt.Sprintf("  %s · %s · %s", m.SlotID, m.Identity.Precision, how)
	right := fmt.Sprintf("first chunk %s", millis(m.FirstChunk))
	fmt.Fprintf(b.out, "%s%s%s\n", left, strings.Repeat(" ", max(78-len([]rune(left))-len(right), 2)), right)
	at := time.Duration(0)
	for _, p := range m.Phases.List() {
		b.line(string(p.Phase), p.Phase.Group(), at, p.Duration, m.FirstChunk, "  ")
		if p.Phase == shared.PhaseSlotActivation {
			b.activation(m.Activation, at, m.FirstChunk)
		}
		at += p.Duration
	}
}

// activation draws the parts of a cold slot_activation below it.
func (b *bars) activation(d shared.ActivationDetail, at, whole time.Duration) {
	if d == (shared.ActivationDetail{}) {
		return
	}
	for _, part := range []struct {
		name string
		d    time.Duration
	}{{"spawn", d.Spawn}, {"prefetch", d.Prefetch}, {"transfer", d.Transfer}, {"warmup", d.Warmup}, {"canary", d.Canary}} {
		if part.d == 0 {
			continue // an eviction that kept process and host buffer has no spawn and no prefetch
		}
		b.line(part.name, shared.GroupActivation, at, part.d, whole, "    · ")
		at += part.d
	}
}

func (b *bars) line(name string, g shared.PhaseGroup, at, d, whole time.Duration, indent string) {
	bar := b.bar(at, d, whole)
	if b.color {
		bar = ansi(g) + bar + "\x1b[0m"
	}
	fmt.Fprintf(b.out, "%-22s %10s  %s\n", indent+name, millis(d), bar)
}

// bar places a length on the scale of the whole. What is too short to see is a
// thin mark, so that no phase disappears.
func (b *bars) bar(at, d, whole time.Duration) string {
	if whole <= 0 || d <= 0 {
		return ""
	}
	start := int(float64(at) / float64(whole) * barWidth)
	cells := int(float64(d)/float64(whole)*barWidth + 0.5)
	full, thin := "█", "▏"
	if !b.unicode {
		full, thin = "#", "|"
	}
	pad := strings.Repeat(" ", min(start, barWidth-1))
	if cells == 0 {
		return pad + thin
	}
	return pad + strings.Repeat(full, min(cells, max(barWidth-start, 1)))
}

// millis has as many digits as are worth reading.
func millis(d time.Duration) string {
	ms := shared.Milliseconds(d)
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f ms", ms)
	}
}
