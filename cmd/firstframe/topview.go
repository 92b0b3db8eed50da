package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/firstframe/firstframe/shared"
)

// Columns of the screen. What a terminal is wider than topMinWidth goes to the bars.
const (
	topMinWidth = 80
	topSlot     = 17
	topRequest  = topSlot + 2 + 12 + 10 + 12 + 2 // what stands before a bar
)

// View draws the screen.
func (m topModel) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	v.WindowTitle = "firstframe top"
	return v
}

func (m topModel) screen() string {
	width, height := max(m.width, topMinWidth), m.height
	if height == 0 {
		height = 24
	}
	if m.now.IsZero() {
		return "asking the supervisor…"
	}
	head := []string{m.summary(), ""}
	slots := m.slotLines(width)
	// At least a third of the screen belongs to the requests.
	if most := max(height*2/3-len(head), 4); len(slots) > most {
		slots = append(slots[:most-1:most-1], m.paint.paint(fmt.Sprintf("  and %d more lines", len(slots)-most+1), ansiFaint))
	}
	foot := m.paint.paint("q leaves"+m.dot()+"p pauses", ansiFaint)
	lines := append(append(head, slots...), "", m.legend(), m.requestTitle())
	lines = append(lines, m.requestLines(width, height-len(lines)-1)...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, foot), "\n")
}

func (m topModel) dot() string { return m.paint.pick(" · ", ", ") }

func (m topModel) summary() string {
	running, waiting, rate := 0, 0, 0.0
	for _, s := range m.slots {
		running += s.Load.SequencesRunning
		waiting += s.Load.SequencesWaiting
		rate += m.rate(s.SlotID)
	}
	text := m.paint.paint("firstframe top", ansiBold) + m.dot() + strings.Join([]string{
		fmt.Sprintf("%d slots", len(m.slots)), fmt.Sprintf("%d running", running),
		fmt.Sprintf("%d waiting", waiting), fmt.Sprintf("%.1f tokens/s", rate),
	}, m.dot())
	if m.paused {
		text += m.dot() + m.paint.paint("paused", ansiBold)
	}
	return text
}

// slotLines are the table of slots, and what is wrong with one below it.
func (m topModel) slotLines(width int) []string {
	row := func(slot, state, host, device, kv, running, waiting, rate string) string {
		return fmt.Sprintf("%s  %s%9s %9s %5s %4s %4s %7s", cell(slot, topSlot), cell(state, 17), host, device, kv, running, waiting, rate)
	}
	lines := []string{m.paint.paint(row("SLOT", "STATE", "HOST", "DEVICE", "KV", "RUN", "WAIT", "TOK/S"), ansiFaint)}
	for _, s := range m.slots {
		kv := "-"
		if s.Load.KVTokensTotal > 0 {
			kv = fmt.Sprintf("%d %%", 100*s.Load.KVTokensUsed/s.Load.KVTokensTotal)
		}
		line := row(s.SlotID, state(s), size(s.HostBytes), size(s.DeviceBytes), kv,
			fmt.Sprint(s.Load.SequencesRunning), fmt.Sprint(s.Load.SequencesWaiting), fmt.Sprintf("%.1f", m.rate(s.SlotID)))
		if s.Status == shared.SlotActive {
			line = m.paint.paint(line, ansiBold)
		}
		lines = append(lines, line)
		if s.LastError != "" {
			lines = append(lines, m.paint.paint("  "+cell(s.LastError, width-2), "\x1b[31m"))
		}
	}
	return lines
}

// state is the slot's status, or what its process is doing when that says more.
func state(s shared.SlotInfo) string {
	text := string(s.Status)
	switch {
	case s.Status == shared.SlotPrefetching && s.Progress.TotalBytes > 0:
		text = fmt.Sprintf("%s %d %%", s.Progress.Stage, 100*min(s.Progress.DoneBytes, s.Progress.TotalBytes)/s.Progress.TotalBytes)
	case s.Status == shared.SlotPrefetching && s.Progress.Stage != "":
		text = s.Progress.Stage
	case s.Process != shared.ProcessUp && s.Process != shared.ProcessStopped:
		text = string(s.Process)
	case s.Status == shared.SlotEmpty && s.HostBufferID != "":
		text = "empty, host kept"
	}
	return text
}

func (m topModel) legend() string {
	if legend := strings.TrimSpace(m.paint.legend()); legend != "" {
		return legend
	}
	return "bars: slot, activation, context, delivery, other"
}

func (m topModel) requestTitle() string {
	return m.paint.paint(fmt.Sprintf("%s  %s%10s%12s  WHERE IT WENT", cell("SLOT", topSlot), cell("ENDED", 12), "TOKENS", "FIRST CHUNK"), ansiFaint)
}

// requestLines are the latest requests, newest first. Each bar is as wide as the
// others, whatever time it stands for: one cold request would leave nothing to be
// seen of the warm ones beside it.
func (m topModel) requestLines(width, most int) []string {
	shown := m.requests[max(len(m.requests)-max(most, 0), 0):]
	var lines []string
	for i := len(shown) - 1; i >= 0; i-- {
		r := shown[i]
		outcome := r.Outcome
		if r.Error != "" {
			outcome = r.Error
		}
		first := "-"
		if r.FirstChunk > 0 {
			first = millis(r.FirstChunk)
		}
		slot := r.SlotID
		if !r.SlotHit && r.Outcome == shared.OutcomeDone {
			outcome = "done, cold"
		}
		lines = append(lines, fmt.Sprintf("%s  %s%10s%12s  %s", cell(dash(slot), topSlot), cell(outcome, 12),
			fmt.Sprintf("%d+%d", r.Usage.PromptTokens, r.Usage.CompletionTokens), first, m.phaseBar(r.RequestRecord, width-topRequest)))
	}
	return lines
}

// phaseBar divides cells among the phase groups of a request's time to its first
// chunk. A group that took time gets a cell at least.
func (m topModel) phaseBar(r shared.RequestRecord, cells int) string {
	if r.FirstChunk <= 0 || cells <= 0 {
		return ""
	}
	var groups []shared.PhaseGroup
	took := map[shared.PhaseGroup]time.Duration{}
	for _, p := range r.Phases.List() {
		g := p.Phase.Group()
		if took[g] == 0 && p.Duration > 0 {
			groups = append(groups, g)
		}
		took[g] += p.Duration
	}
	var b strings.Builder
	at, used := time.Duration(0), 0
	for i, g := range groups {
		at += took[g]
		end := int(portion(at, r.FirstChunk)*float64(cells) + 0.5)
		n := max(end-used, 1)
		n = min(n, cells-used-(len(groups)-1-i)) // the others need a cell each
		if n <= 0 {
			continue
		}
		used += n
		b.WriteString(m.paint.paint(strings.Repeat(m.mark(g), n), ansi(g)))
	}
	return b.String()
}

// mark is a cell of a phase group: a letter where there are no colours.
func (m topModel) mark(g shared.PhaseGroup) string {
	switch {
	case m.paint.color:
		return m.paint.pick("█", "#")
	case g == "":
		return "o"
	default:
		return string(g[0])
	}
}

// cell is a text of exactly so many columns that cannot disturb the screen.
func cell(text string, width int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(runes) > width {
		runes = append(runes[:max(width-1, 0):max(width-1, 0)], '…')
	}
	return padded(string(runes), width)
}
