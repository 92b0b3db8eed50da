package main

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/firstframe/firstframe/shared"
)

const (
	// rateWindow is what rates of tokens are averaged over.
	rateWindow = 3 * time.Second
	// topRequests is how many requests are remembered for the screen.
	topRequests = 200
)

// topModel is the state of the screen. Messages alone change it, so that a test
// can send them.
type topModel struct {
	paint *bars
	look  func(after uint64) tea.Msg

	width, height int
	paused        bool
	now           time.Time
	slots         []shared.SlotInfo
	requests      []seenRequest // oldest first
	samples       []tokenSample // oldest first
	err           error
}

type seenRequest struct {
	shared.RequestRecord
	ended time.Time
}

// tokenSample is the slots' counters of tokens at one moment.
type tokenSample struct {
	at     time.Time
	tokens map[string]int64
}

// again is the time for another look.
type again struct{}

// Init takes the first look.
func (m topModel) Init() tea.Cmd { return m.lookCmd() }

// Update takes in what happened.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "p", "space":
			m.paused = !m.paused
		}
	case again:
		if m.paused {
			return m, nextLook()
		}
		return m, m.lookCmd()
	case look:
		if msg.err != nil {
			m.err = msg.err
			return m, tea.Quit
		}
		return m.seen(msg), nextLook()
	}
	return m, nil
}

func nextLook() tea.Cmd { return tea.Tick(topPace, func(time.Time) tea.Msg { return again{} }) }

func (m topModel) lookCmd() tea.Cmd {
	look, after := m.look, uint64(0)
	if n := len(m.requests); n > 0 {
		after = m.requests[n-1].Number
	}
	return func() tea.Msg { return look(after) }
}

// seen is the model after a look.
func (m topModel) seen(l look) topModel {
	m.now, m.slots = l.at, l.slots
	requests := append([]seenRequest{}, m.requests...)
	for _, r := range l.activity.Requests {
		requests = append(requests, seenRequest{r, l.at.Add(-r.Ago)})
	}
	m.requests = requests[max(len(requests)-topRequests, 0):]
	samples := append([]tokenSample{}, m.samples...)
	samples = append(samples, tokenSample{l.at, l.activity.Tokens})
	for len(samples) > 2 && l.at.Sub(samples[1].at) >= rateWindow {
		samples = samples[1:]
	}
	m.samples = samples
	return m
}

// rate is how many tokens a second a slot has generated lately. A slot that was
// declared anew meanwhile counts from 0.
func (m topModel) rate(slotID string) float64 {
	if len(m.samples) < 2 {
		return 0
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	since := last.at.Sub(first.at).Seconds()
	if since <= 0 {
		return 0
	}
	made := last.tokens[slotID]
	if before := first.tokens[slotID]; before <= made {
		made -= before
	}
	return float64(made) / since
}
