package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Columns of a line of bars; together they fill 78 of 80.
const (
	nameWidth = 22
	barWidth  = 42
)

// bars draws phases in a terminal as a waterfall: each bar begins where the one
// before it ended, and the scale is linear.
type bars struct {
	out     io.Writer
	color   bool
	unicode bool
}

func newBars(w io.Writer) *bars {
	dumb := os.Getenv("TERM") == "dumb"
	return &bars{
		out:     w,
		color:   isTerminal(w) && os.Getenv("NO_COLOR") == "" && !dumb,
		unicode: !dumb && speaksUnicode(os.Getenv),
	}
}

// speaksUnicode reads the locale as C programs do. Where none is set at all, as
// in containers, terminals are UTF-8.
func speaksUnicode(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// ANSI codes: the four runtime phases as colours, and two styles.
const (
	ansiReset = "\x1b[0m"
	ansiBold  = "\x1b[1m"
	ansiFaint = "\x1b[2m"
)

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

// paint puts codes around a text where colours are shown.
func (b *bars) paint(text string, codes ...string) string {
	if !b.color || text == "" {
		return text
	}
	return strings.Join(codes, "") + text + ansiReset
}

// pick is the first text where Unicode is shown, the second elsewhere.
func (b *bars) pick(unicode, ascii string) string {
	if b.unicode {
		return unicode
	}
	return ascii
}

// legend explains the colours; without them, the names of the groups say nothing.
func (b *bars) legend() string {
	if !b.color {
		return ""
	}
	var parts []string
	for _, g := range []shared.PhaseGroup{shared.GroupSlot, shared.GroupActivation, shared.GroupContext, shared.GroupDelivery, ""} {
		name := string(g)
		if g == "" {
			name = "other"
		}
		parts = append(parts, b.paint(b.pick("██", "##"), ansi(g))+" "+name)
	}
	return "  " + strings.Join(parts, "   ") + "\n"
}

// request draws one measured request.
func (b *bars) request(m shared.Measured) {
	if m.FirstChunk <= 0 {
		fmt.Fprintln(b.out, "  the answer had no text, so there was no first chunk")
		return
	}
	how := "found resident"
	if !m.SlotHit {
		how = "prepared for this request"
	}
	dot := b.pick(" · ", ", ")
	answer := fmt.Sprintf("%d tokens in %s", m.Usage.CompletionTokens, millis(m.FullResponse))
	fmt.Fprintln(b.out, "  "+b.paint(m.SlotID+dot+m.Identity.Precision+dot+how, ansiBold)+dot+answer)
	at := time.Duration(0)
	for _, p := range m.Phases.List() {
		b.line("  "+string(p.Phase), at, p.Duration, m.FirstChunk, ansi(p.Phase.Group()))
		if p.Phase == shared.PhaseSlotActivation {
			b.activation(m.Activation, at, m.FirstChunk)
		}
		at += p.Duration
	}
	b.axis(m)
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
		b.line("    "+b.pick("· ", "- ")+part.name, at, part.d, whole, ansiFaint, ansi(shared.GroupActivation))
		at += part.d
	}
}

func (b *bars) line(name string, at, d, whole time.Duration, codes ...string) {
	start := min(int(portion(at, whole)*barWidth), barWidth-1)
	cells := portion(d, whole) * barWidth
	if cells >= 1 {
		cells += portion(at, whole)*barWidth - float64(start) // it ends where the next one begins
	}
	bar := b.bar(min(cells, float64(barWidth-start)), d > 0)
	if bar != "" {
		bar = "  " + strings.Repeat(" ", start) + b.paint(bar, codes...)
	}
	fmt.Fprintf(b.out, "%s%12s%s\n", padded(name, nameWidth), millis(d), bar)
}

// axis ends the waterfall with the scale: the bars' whole width is the time to
// the first chunk.
func (b *bars) axis(m shared.Measured) {
	left, line, right := b.pick("└", "+"), b.pick("─", "-"), b.pick("┘", "+")
	label := " first chunk " + strings.TrimSpace(millis(m.FirstChunk)) + " "
	rest := max(barWidth-2-len(label), 0)
	fmt.Fprintf(b.out, "%s%s\n", strings.Repeat(" ", nameWidth+12+2),
		b.paint(left+strings.Repeat(line, rest/2)+label+strings.Repeat(line, rest-rest/2)+right, ansiFaint))
}

// bar is a length in cells, to an eighth of one where Unicode is shown. What is
// too short to see is a thin mark, so that no phase disappears.
func (b *bars) bar(cells float64, some bool) string {
	if !some {
		return ""
	}
	if !b.unicode {
		return strings.Repeat("#", int(cells+0.5)) + strings.Repeat("|", max(1-int(cells+0.5), 0))
	}
	eighths := max(int(cells*8+0.5), 1)
	text := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[part])
	}
	return text
}

func portion(d, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return min(float64(d)/float64(whole), 1)
}

func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(width-len([]rune(text)), 0))
}

// millis has two digits after the point, so that columns of it can be compared.
func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", shared.Milliseconds(d)) }
