package shared

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is text as a terminal may show it. Names of files and what stands in
// them may hold characters that a terminal obeys instead: those are escaped as in
// Go, apart from line ends and tabs.
func Visible(text string) string {
	if !strings.ContainsFunc(text, obeyed) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if obeyed(r) {
			quoted := strconv.QuoteToGraphic(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// obeyed is true for bytes that are no text, too.
func obeyed(r rune) bool {
	return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsGraphic(r)
}
