package main

import (
	"io"
	"text/tabwriter"

	"github.com/firstframe/firstframe/shared"
)

// table lines up cells that are separated by tabs.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(visible{w}, 0, 0, 2, ' ', 0) }

// visible shows text from files so that a terminal does not obey it. What is
// written at once is whole characters.
type visible struct{ w io.Writer }

func (v visible) Write(p []byte) (int, error) {
	if _, err := io.WriteString(v.w, shared.Visible(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
