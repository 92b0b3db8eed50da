package main

import (
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// somePlan has one of everything.
func somePlan() shared.Plan {
	return shared.Plan{
		Slots: []shared.SlotChange{
			{SlotID: "q8", Action: shared.ActionKeep},
			{SlotID: "f16", Action: shared.ActionChange, Fields: []shared.FieldChange{
				{Name: "context.tokens", Old: "512", New: "1024"}, {Name: "pages.host", Old: "64MiB", New: "512MiB"},
			}},
			{SlotID: "new", Action: shared.ActionAdd},
			{SlotID: "old", Action: shared.ActionRemove},
		},
		Aliases: []shared.AliasChange{
			{Alias: "fast", Action: shared.ActionAdd, New: "q8"},
			{Alias: "gpt-4o-mini", Action: shared.ActionChange, Old: "old", New: "q8"},
			{Alias: "slow", Action: shared.ActionRemove, Old: "old"},
		},
	}
}

func TestPlanAndReload(t *testing.T) {
	const demo = "../../testdata/hcl/demo.hcl"
	broken := shared.Reload{Diagnostics: []shared.Diagnostic{{
		Summary: "Unknown key", Detail: "There is no key \"modell\" in a slot block.", File: "a.hcl", Line: 3, Column: 2,
		Text: "Error: Unknown key\n\n  on a.hcl:3:2:\n   3: modell = 1\n      ^^^^^^\n\nThere is no key \"modell\" in a slot block.\n\n",
	}}}
	warned := shared.Reload{Applied: true, Plan: somePlan(), Diagnostics: []shared.Diagnostic{{
		Warning: true, Summary: "Needs a new start", Detail: "supervisor.state_dir has changed.", Text: "Warning: Needs a new start\n\nsupervisor.state_dir has changed.\n\n",
	}}}
	same := shared.Reload{Applied: true, Plan: shared.Plan{Slots: []shared.SlotChange{{SlotID: "q8", Action: shared.ActionKeep}}}}
	tests := []struct {
		golden string
		args   []string
		reload shared.Reload
		code   int
	}{
		{"plan.txt", []string{"plan", "-c", demo}, shared.Reload{}, exitOK},
		{"plan.json", []string{"plan", "--json", "-c", demo}, shared.Reload{}, exitOK},
		{"plan-bad.txt", []string{"plan", "-c", "../../testdata/hcl/bad/cuda.hcl"}, shared.Reload{}, exitFailed},
		{"plan-bad.json", []string{"plan", "--json", "-c", "../../testdata/hcl/bad/cuda.hcl"}, shared.Reload{}, exitFailed},
		{"reload.txt", []string{"reload"}, warned, exitOK},
		{"reload.json", []string{"reload", "--json"}, warned, exitOK},
		{"reload-same.txt", []string{"reload"}, same, exitOK},
		{"reload-bad.txt", []string{"reload"}, broken, exitFailed},
		{"reload-bad.json", []string{"reload", "--json"}, broken, exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			f := newFake()
			f.plan, f.reload = somePlan(), tt.reload
			r := runIn(t, f, "", tt.args...)
			if r.code != tt.code {
				t.Errorf("exit code %d instead of %d; %s", r.code, tt.code, r.stderr)
			}
			page := r.stdout
			if filepath.Ext(tt.golden) == ".json" {
				wantJSON(t, page, false)
				if r.stderr != "" {
					t.Errorf("beside the document: %s", r.stderr)
				}
			} else if r.stderr != "" {
				page += "--- standard error\n" + r.stderr
			}
			golden(t, tt.golden, page)
		})
	}
}

// Two processes have to mean the same file by the same declaration.
func TestDeclarationsAreAbsolute(t *testing.T) {
	f := newFake()
	if r := runIn(t, f, "", "plan", "-c", "../../testdata/hcl/demo.hcl"); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, s := range f.declared.Slots {
		if !filepath.IsAbs(s.ModelPath) {
			t.Errorf("slot %s has the path %s", s.SlotID, s.ModelPath)
		}
	}
	if len(f.declared.Slots) == 0 {
		t.Error("nothing was declared")
	}
}
