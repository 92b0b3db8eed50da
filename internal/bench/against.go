package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firstframe/firstframe/shared"
)

// Match is two servers that are measured in turns.
type Match struct {
	Ours, Theirs *Peer
	// Other is the model that takes ours's and theirs's place when models are
	// switched; empty names mean that there is none.
	OurOther, TheirOther string
	Prompts              *Prompts
	// Pairs is how often each case is measured on each side.
	Pairs     int
	WarmUp    int
	MaxTokens int
	// ContextTokens is how much a request may use on both sides.
	ContextTokens int
	Cases         []string
	// Step is called after each pair, for a progress bar.
	Step func()

	number int // of the next prompt, so that none is used twice
	pairs  map[string][]Pair
}

// The cases of a comparison.
const (
	MatchHit      = "resident_page_hit"
	MatchNew      = "resident_new_prompt"
	MatchReload   = "unloaded_new_prompt"
	MatchSwitch   = "switch_new_prompt"
	MatchBack     = "switch_known_prompt"
	MatchShared   = "shared_prefix"
	MatchRestart  = "shared_prefix_after_restart"
	MatchAway     = "shared_prefix_after_switch"
	MatchClients  = "eight_clients"
	MatchBranch4  = "four_branches"
	MatchBranch16 = "sixteen_branches"
)

// MatchCases lists all of them in the order in which they are measured.
func MatchCases() []string {
	return []string{MatchHit, MatchNew, MatchReload, MatchSwitch, MatchBack, MatchShared, MatchRestart, MatchAway, MatchClients, MatchBranch4, MatchBranch16}
}

const (
	hitTokens    = 64   // of the prompts of most cases
	clients      = 8    // of the case that has several
	perClient    = 4    // requests of each in a pair
	trunkTokens  = 1024 // what branches share
	branchTokens = 16
)

var (
	errNoOther = errors.New("no second model was given")
	errBothFit = errors.New("our slot was not evicted: both models fit into its memory budget")
)

// dear reports whether a pair of a case takes long, so that fewer do.
func dear(name string) bool {
	switch name {
	case MatchReload, MatchSwitch, MatchBack, MatchClients, MatchBranch4, MatchBranch16:
		return true
	}
	return false
}

// StepsOf is how many pairs a case has.
func StepsOf(name string, pairs int) int {
	switch {
	case name == MatchShared:
		return sharedPrefixes * (sharedRounds(pairs) - 1)
	case name == MatchRestart, name == MatchAway:
		return sharedPrefixes
	case dear(name):
		return max(min(pairs, leastPairs), pairs/4)
	}
	return pairs
}

const (
	sharedPrefixes = 16
	leastPairs     = 5
)

// sharedRounds is the round that is new to everybody, and those after it.
func sharedRounds(pairs int) int { return 1 + (pairs+sharedPrefixes-1)/sharedPrefixes }

// Run measures every case. A case that a peer cannot take part in is in the
// result with the reason; a request that fails ends the comparison.
func (m *Match) Run(ctx context.Context) ([]Comparison, error) {
	var all []Comparison
	steps := map[string]func(context.Context) error{
		MatchHit:      m.hit,
		MatchNew:      func(ctx context.Context) error { return m.ask(ctx, m.next(), nil) },
		MatchReload:   m.reload,
		MatchSwitch:   func(ctx context.Context) error { return m.exchange(ctx, false) },
		MatchBack:     func(ctx context.Context) error { return m.exchange(ctx, true) },
		MatchClients:  m.eight,
		MatchBranch4:  func(ctx context.Context) error { return m.branches(ctx, 4) },
		MatchBranch16: func(ctx context.Context) error { return m.branches(ctx, 16) },
	}
	for _, name := range MatchCases() {
		if !slices.Contains(m.Cases, name) {
			continue
		}
		m.pairs = map[string][]Pair{}
		err := m.one(ctx, name, steps[name])
		switch {
		case errors.Is(err, ErrNoAPI), errors.Is(err, errNoOther), errors.Is(err, errBothFit):
			all = append(all, Comparison{Peer: m.Theirs.Base, Case: name, Measure: FirstChunk, NotComparable: err.Error()})
		case err != nil:
			return all, fmt.Errorf("%s: %w", name, err)
		default:
			for _, measure := range []string{FirstChunk, FirstChunkP95, EngineTime, Overhead, Wall, TokensPerSecond} {
				if pairs := m.pairs[measure]; pairs != nil {
					all = append(all, Compare(m.Theirs.Base, name, measure, pairs))
				}
			}
		}
	}
	return all, nil
}

func (m *Match) one(ctx context.Context, name string, step func(context.Context) error) error {
	switch name {
	case MatchShared:
		return m.shared(ctx, nil)
	case MatchRestart:
		return m.shared(ctx, m.restart)
	case MatchAway:
		return m.shared(ctx, m.away)
	}
	// What warms up is not counted.
	warmUp := m.WarmUp
	if dear(name) {
		warmUp = min(warmUp, 1)
	}
	for range warmUp {
		if err := step(ctx); err != nil {
			return err
		}
	}
	m.pairs = map[string][]Pair{}
	for range StepsOf(name, m.Pairs) {
		if err := step(ctx); err != nil {
			return err
		}
		m.Step()
	}
	return nil
}

// sides are who is asked, always in this order: A B A B.
func (m *Match) sides() []*Peer { return []*Peer{m.Ours, m.Theirs} }

// next is a number for prompts that nobody has seen.
func (m *Match) next() int {
	m.number += 1000
	return m.number
}

// add keeps what one request on each side took.
func (m *Match) add(ours, theirs Sample) {
	put := func(measure string, of func(Sample) time.Duration) {
		m.put(measure, shared.Milliseconds(of(ours)), shared.Milliseconds(of(theirs)))
	}
	put(FirstChunk, func(s Sample) time.Duration { return s.FirstChunk })
	put(EngineTime, func(s Sample) time.Duration { return s.Engine })
	put(Overhead, func(s Sample) time.Duration {
		if s.Engine == 0 {
			return 0 // it did not say
		}
		return s.FirstChunk - s.Engine
	})
}

func (m *Match) put(measure string, ours, theirs float64) {
	m.pairs[measure] = append(m.pairs[measure], Pair{ours, theirs})
}

// hit asks what was asked right before.
func (m *Match) hit(ctx context.Context) error {
	const number = 1
	return m.ask(ctx, number, func(ctx context.Context, p *Peer) error {
		_, err := p.Ask(ctx, m.question(number))
		return err
	})
}

func (m *Match) question(number int) Question {
	return Question{Text: m.Prompts.Text(number, hitTokens), MaxTokens: m.MaxTokens}
}

// ask puts a question to each side, after before was done there.
func (m *Match) ask(ctx context.Context, number int, before func(context.Context, *Peer) error) error {
	q := m.question(number)
	var got [2]Sample
	for i, p := range m.sides() {
		if before != nil {
			if err := before(ctx, p); err != nil {
				return err
			}
		}
		var err error
		if got[i], err = p.Ask(ctx, q); err != nil {
			return err
		}
	}
	m.add(got[0], got[1])
	return nil
}

// reload asks something new of a model that was unloaded: the time includes the
// load that the request causes.
func (m *Match) reload(ctx context.Context) error {
	if !m.Theirs.CanUnload() {
		return fmt.Errorf("%s: %w", m.Theirs.Kind, ErrNoAPI)
	}
	return m.ask(ctx, m.next(), func(ctx context.Context, p *Peer) error { return p.Unload(ctx) })
}

// exchange asks the other model first, which takes the place of the first where
// only one fits.
func (m *Match) exchange(ctx context.Context, known bool) error {
	if m.OurOther == "" || m.TheirOther == "" {
		return errNoOther
	}
	number := m.next()
	if known {
		number = 2
	}
	q := Question{Text: m.Prompts.Text(number, hitTokens), MaxTokens: m.MaxTokens}
	return m.ask(ctx, number, func(ctx context.Context, p *Peer) error {
		if known {
			if _, err := p.Ask(ctx, q); err != nil {
				return err
			}
		}
		return m.askOther(ctx, p, number+1)
	})
}

// askOther puts a question to the other model, and makes sure that it took the
// place of the first.
func (m *Match) askOther(ctx context.Context, p *Peer, number int) error {
	other := p.Client
	other.Model = m.TheirOther
	if p == m.Ours {
		other.Model = m.OurOther
	}
	if _, err := other.Ask(ctx, Question{Text: m.Prompts.Text(number, hitTokens), MaxTokens: 1}); err != nil {
		return err
	}
	if p != m.Ours {
		return nil
	}
	stayed, err := p.ready(ctx)
	if err == nil && stayed {
		err = errBothFit
	}
	return err
}

// restart replaces the processes of both sides.
func (m *Match) restart(ctx context.Context) error {
	if !m.Theirs.CanUnload() {
		return fmt.Errorf("%s: %w", m.Theirs.Kind, ErrNoAPI)
	}
	for _, p := range m.sides() {
		if err := p.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// away has both sides serve the other model for one request.
func (m *Match) away(ctx context.Context) error {
	if m.OurOther == "" || m.TheirOther == "" {
		return errNoOther
	}
	for _, p := range m.sides() {
		if err := m.askOther(ctx, p, m.next()); err != nil {
			return err
		}
	}
	return nil
}

// shared asks many conversations that share system prompts. Only rounds after
// the first count: with between, which is called after it, the one that finds what
// was kept.
func (m *Match) shared(ctx context.Context, between func(context.Context) error) error {
	w := SharedPrefix{Prefixes: sharedPrefixes, PrefixTokens: 384, QuestionTokens: 32, Rounds: sharedRounds(m.Pairs), MaxTokens: m.MaxTokens}.Scaled(m.ContextTokens)
	if between != nil {
		w.Rounds = 2
	}
	questions := m.Prompts.Questions(m.next(), w)
	for _, q := range questions[:w.Prefixes] {
		for _, p := range m.sides() {
			if _, err := p.Ask(ctx, q); err != nil {
				return err
			}
		}
	}
	if between != nil {
		if err := between(ctx); err != nil {
			return err
		}
	}
	for _, q := range questions[w.Prefixes:] {
		var got [2]Sample
		for i, p := range m.sides() {
			var err error
			if got[i], err = p.Ask(ctx, q); err != nil {
				return err
			}
		}
		m.add(got[0], got[1])
		m.Step()
	}
	return nil
}

// eight has eight clients ask new prompts at the same time.
func (m *Match) eight(ctx context.Context) error {
	questions := m.Prompts.Unique(m.next(), clients*perClient, hitTokens, 32)
	var got [2]Load
	for i, p := range m.sides() {
		var err error
		if got[i], err = ClosedLoop(ctx, MatchClients, p, clients, questions); err != nil {
			return err
		}
		if got[i].Failed > 0 {
			return fmt.Errorf("%d of %d requests failed: %s", got[i].Failed, got[i].Requests, got[i].FirstError)
		}
	}
	m.put(FirstChunk, got[0].FirstChunkMS.Median, got[1].FirstChunkMS.Median)
	m.put(FirstChunkP95, got[0].FirstChunkMS.P95, got[1].FirstChunkMS.P95)
	m.put(TokensPerSecond, got[0].TokensPerSecond, got[1].TokensPerSecond)
	return nil
}

// branches asks n questions about the same new text at once, and waits for all.
func (m *Match) branches(ctx context.Context, n int) error {
	w := SharedPrefix{Prefixes: 1, PrefixTokens: trunkTokens, QuestionTokens: branchTokens, Rounds: n, MaxTokens: m.MaxTokens}.Scaled(m.ContextTokens)
	questions := m.Prompts.Questions(m.next(), w)
	var wall [2]time.Duration
	for i, p := range m.sides() {
		group, running := errgroup.WithContext(ctx)
		start := time.Now()
		for _, q := range questions {
			group.Go(func() error {
				_, err := p.Ask(running, q)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		wall[i] = time.Since(start)
	}
	m.put(Wall, shared.Milliseconds(wall[0]), shared.Milliseconds(wall[1]))
	return nil
}
