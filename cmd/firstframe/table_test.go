package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

// What an error or a list says may come from a file, of which anybody may be the
// author; a terminal must not act on it.
func TestTerminalsAreNotSteered(t *testing.T) {
	const hostile = "models/\x1b]0;owned\x07\u009b31m\u202e.gguf"
	const shown = `models/\x1b]0;owned\a\u009b31m\u202e.gguf`
	hidden := &shared.Error{Kind: shared.KindOther, Message: "cannot open " + hostile, LogTail: []string{hostile}, Candidates: []shared.Candidate{{Model: hostile}}}
	list := shared.SlotList{Slots: []shared.SlotInfo{{SlotID: "a", Model: hostile, LastError: hostile, PinNote: hostile, Adapters: []shared.AdapterInfo{{Path: hostile}}}}}
	var out bytes.Buffer
	a := &app{out: &out, errOut: &out}
	for name, print := range map[string]func() error{
		"error":    func() error { a.tell(a.root(), hidden); return nil },
		"progress": func() error { a.progressf("reading %s", hostile); return nil },
		"slots":    func() error { return slotTable(&out, list) },
		"checks": func() error {
			return a.printChecks(doctorJSON{Checks: []check{{Name: "model", Detail: hostile}}}, false)
		},
		"plan": func() error {
			return a.printReload(shared.Reload{Diagnostics: []shared.Diagnostic{{Text: hostile}}}, false)
		},
		"pages": func() error {
			return a.printPages(pageFilesJSON{Groups: []pageGroupJSON{{Folder: hostile + "/pages", State: hostile}}}, pagesFlags{}, true)
		},
	} {
		out.Reset()
		_ = print() // one that refuses says so as an error
		if strings.ContainsAny(out.String(), "\x1b\x07\u009b\u202e") || !strings.Contains(strings.ReplaceAll(out.String(), "models/", ""), strings.TrimPrefix(shown, "models/")) {
			t.Errorf("%s printed %q", name, out.String())
		}
	}
}
