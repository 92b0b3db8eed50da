package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firstframe/firstframe/internal/bench"
)

// quickCases and allCases stand for several cases on the command line.
const (
	quickCases = "quick"
	allCases   = "all"
)

// The names of cases on the command line.
const (
	wantCold        = "cold"
	wantResident    = "resident"
	wantHit         = "hit"
	wantHostHit     = "host-hit"
	wantEvicted     = "evicted"
	wantDiskHit     = "disk-hit"
	wantRestarted   = "restarted"
	wantSwitch      = "switch"
	wantBudget      = "budget"
	wantShared      = "shared-prefix"
	wantConcurrency = "concurrency"
	wantOpenLoop    = "open-loop"
	wantLength      = "prompt-length"
	wantTokenCost   = "token-cost"
	wantSlots       = "slots"
	wantPages       = "pages"
)

// selectable is one case as it can be chosen.
type selectable struct {
	name  string
	quick bool
	own   bool // it needs a supervisor of its own
}

func selectables() []selectable {
	return []selectable{
		{wantCold, true, false}, {wantResident, true, false}, {wantHit, true, false}, {wantHostHit, true, false},
		{wantEvicted, true, false}, {wantDiskHit, true, true}, {wantRestarted, true, true}, {wantSwitch, true, true},
		{wantBudget, false, true}, {wantShared, true, false}, {wantConcurrency, false, false}, {wantOpenLoop, false, false},
		{wantLength, false, false}, {wantTokenCost, false, true}, {wantSlots, false, true}, {wantPages, false, true},
	}
}

func caseNames() []string {
	var names []string
	for _, s := range selectables() {
		names = append(names, s.name)
	}
	return names
}

// chooseCases resolves names. With a running supervisor, quick and all mean what
// can be measured there.
func chooseCases(asked []string, own bool) ([]string, error) {
	var chosen []string
	add := func(name string) {
		if !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	for _, name := range asked {
		found := false
		for _, s := range selectables() {
			switch {
			case name == allCases || (name == quickCases && s.quick):
				found = true
				if own || !s.own {
					add(s.name)
				}
			case name == s.name && s.own && !own:
				return nil, fmt.Errorf("case %s starts a supervisor of its own and cannot be measured with --slot", name)
			case name == s.name:
				found = true
				add(name)
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no case %q; there are %s, %s and %s", name, strings.Join(caseNames(), ", "), quickCases, allCases)
		}
	}
	return chosen, nil
}

// steps is how far a progress bar goes: a step is a measured run, or a point of
// what is measured as a whole.
func (o *benchOptions) steps() int {
	n := 0
	for _, name := range o.match.cases {
		n += len(o.match.against) * bench.StepsOf(name, o.runs)
	}
	if n > 0 {
		return n
	}
	for _, name := range o.cases {
		switch name {
		case wantCold, wantRestarted:
			n += o.fewRuns()
		case wantBudget:
			n += 2 * o.runs
		case wantShared:
			n += o.sharedPrefix(0).Prefixes * sharedRounds
		case wantConcurrency:
			n += len(concurrencies())
		case wantOpenLoop:
			n += len(openLoads())
		case wantLength:
			n += len(promptLengths())
		case wantTokenCost:
			n++
		case wantSlots:
			n += len(slotCounts())
		case wantPages:
			n += len(pageCounts())
		default:
			n += o.runs
		}
	}
	return n
}
