package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/firstframe/firstframe/shared"
)

// topScreen has three slots and four requests in it.
func topScreen(t *testing.T, paint *bars, width, height int) topModel {
	t.Helper()
	slots := newFake().slots
	slots[0].Status = shared.SlotActive
	slots[0].Load = shared.SlotLoad{SequencesRunning: 2, SequencesWaiting: 3, KVTokensUsed: 1024, KVTokensTotal: 8192}
	slots[1].Status, slots[1].DeviceBytes, slots[1].Progress = shared.SlotPrefetching, 0, shared.Progress{Stage: "read", DoneBytes: 1, TotalBytes: 4}
	failed := slots[1]
	failed.SlotID, failed.Status, failed.Process, failed.HostBytes = "crashes", shared.SlotEmpty, shared.ProcessBackoff, 0
	failed.LastError = "the worker process ended (signal killed)\x1b[2J " + strings.Repeat("x", 200)
	slots = append(slots, failed)

	phases := func(scale time.Duration) shared.Phases {
		p := measured(scale).Phases
		p.FirstChunkFlush = 0
		return p
	}
	request := func(number uint64, slot string, p shared.Phases) shared.RequestRecord {
		return shared.RequestRecord{
			Number: number, SlotID: slot, Model: "storyteller", Outcome: shared.OutcomeDone, SlotHit: true,
			Usage: shared.Usage{PromptTokens: 120, CompletionTokens: 24}, Phases: p, FirstChunk: p.Sum(), FullResponse: 2 * p.Sum(),
		}
	}
	warm := phases(time.Millisecond)
	warm.SlotActivation, warm.Queue = 0, 0
	cold := request(1, demoQ8, phases(10*time.Millisecond))
	cold.SlotHit = false
	requests := []shared.RequestRecord{
		cold, request(2, demoQ8, warm),
		{Number: 3, SlotID: "crashes", Outcome: shared.OutcomeError, Error: "worker_lost"},
		{Number: 4, Outcome: shared.OutcomeError, Error: "not_found"},
		request(5, demoF16, phases(5*time.Millisecond)),
	}
	var m tea.Model = topModel{paint: paint, look: func(after uint64) tea.Msg { return after }}
	start := time.Unix(1_800_000_000, 0)
	for _, msg := range []tea.Msg{
		tea.WindowSizeMsg{Width: width, Height: height},
		look{at: start, slots: slots, activity: shared.Activity{Requests: requests[:2], Tokens: map[string]int64{demoQ8: 100, demoF16: 10}}},
		look{at: start.Add(2 * time.Second), slots: slots, activity: shared.Activity{Requests: requests[2:], Tokens: map[string]int64{demoQ8: 185, demoF16: 10}}},
	} {
		m, _ = m.Update(msg)
	}
	return m.(topModel)
}

func TestTop(t *testing.T) {
	var page strings.Builder
	for _, s := range []struct {
		paint         *bars
		width, height int
	}{
		{&bars{color: true, unicode: true}, 100, 20}, {&bars{unicode: true}, 80, 16}, {&bars{}, 80, 12},
	} {
		m := topScreen(t, s.paint, s.width, s.height)
		screen := m.View().Content
		page.WriteString(strings.ReplaceAll(screen, "\x1b", "ESC") + "\n" + strings.Repeat("-", s.width) + "\n")
		if n := strings.Count(screen, "\n") + 1; n != s.height {
			t.Errorf("%d lines on a screen of %d", n, s.height)
		}
		for line := range strings.Lines(screen) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); !s.paint.color && n > s.width {
				t.Errorf("%d columns on a screen of %d: %q", n, s.width, line)
			}
		}
	}
	golden(t, "top.txt", page.String())
}

func TestTopKeysAndLooks(t *testing.T) {
	m := topScreen(t, &bars{}, 80, 24)
	key := func(r rune) tea.Msg { return tea.KeyPressMsg{Code: r, Text: string(r)} }
	if got := m.lookCmd()(); got != uint64(5) {
		t.Errorf("the next look asks for requests after %v", got)
	}
	if got := m.rate(demoQ8); got != 42.5 {
		t.Errorf("the rate is %v", got)
	}
	paused, _ := m.Update(key('p'))
	if _, cmd := paused.Update(again{}); cmd == nil || !strings.Contains(paused.View().Content, "paused") {
		t.Error("a pause ends the looks for good, or is not shown")
	}
	if _, cmd := m.Update(key('q')); cmd == nil {
		t.Error("q does nothing")
	} else if _, quits := cmd().(tea.QuitMsg); !quits {
		t.Error("q does not leave")
	}
	gone := errors.New("the supervisor is gone")
	ended, cmd := m.Update(look{err: gone})
	if _, quits := cmd().(tea.QuitMsg); !quits || !errors.Is(ended.(topModel).err, gone) {
		t.Error("an error does not end it")
	}
	// A slot that was declared anew begins to count again.
	anew, _ := m.Update(look{at: m.now.Add(time.Second), slots: m.slots, activity: shared.Activity{Tokens: map[string]int64{demoQ8: 30}}})
	if got := anew.(topModel).rate(demoQ8); got != 10 {
		t.Errorf("the rate of a new slot is %v", got)
	}
}

// Phases of every length fit on the line, and none that took time disappears.
func TestTopBarsStayInside(t *testing.T) {
	m := topModel{paint: &bars{}}
	for _, scale := range []time.Duration{1, time.Microsecond, time.Millisecond, time.Hour} {
		for _, cells := range []int{5, 24, 60} {
			r := shared.RequestRecord{Phases: measured(scale * 100).Phases}
			r.FirstChunk = r.Phases.Sum()
			bar := m.phaseBar(r, cells)
			if len(bar) != cells {
				t.Errorf("%q is not %d wide", bar, cells)
			}
			for _, g := range "sacdo" {
				if !strings.ContainsRune(bar, g) {
					t.Errorf("%q has no %c", bar, g)
				}
			}
		}
	}
	var m2 tea.Model = topModel{paint: &bars{}}
	for i := range 3 * topRequests {
		m2, _ = m2.Update(look{at: time.Unix(int64(i), 0), activity: shared.Activity{Requests: []shared.RequestRecord{{Number: uint64(i)}}}})
	}
	if got := m2.(topModel); len(got.requests) != topRequests || len(got.samples) > 6 {
		t.Errorf("%d requests, %d samples are kept: %s", len(got.requests), len(got.samples), fmt.Sprint(got.samples))
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	if r := runIn(t, newFake(), "", "top"); r.code != exitUsage || !strings.Contains(r.stderr, "slots --watch") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
}
