package main

import (
	"fmt"
	"io"

	"github.com/firstframe/firstframe/shared"
)

// waiting is one line on a terminal that says what a request waits for. It is
// gone before anything else is written.
type waiting struct {
	out   io.Writer // nil shows nothing
	shown bool
}

func (a *app) newWaiting() *waiting {
	if !isTerminal(a.errOut) {
		return &waiting{}
	}
	return &waiting{out: a.errOut}
}

func (w *waiting) show(slot string, p shared.Progress) {
	if w.out == nil {
		return
	}
	line := fmt.Sprintf("%s is being prepared: %s", slot, p.Stage)
	if p.TotalBytes > 0 {
		line += fmt.Sprintf(" %d %%", 100*min(p.DoneBytes, p.TotalBytes)/p.TotalBytes)
	}
	fmt.Fprint(w.out, "\r\x1b[K"+line)
	w.shown = true
}

func (w *waiting) clear() {
	if w.shown {
		fmt.Fprint(w.out, "\r\x1b[K")
		w.shown = false
	}
}
