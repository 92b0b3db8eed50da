package jsongrammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// pattern converts a regular expression. Only expressions that match the whole
// text, from ^ to $, and that read the same in every dialect are taken.
func (c *converter) pattern(text, path string) (string, error) {
	re, err := syntax.Parse(text, syntax.Perl&^syntax.UnicodeGroups)
	if err != nil {
		return "", fail("pattern", path, "%v", err)
	}
	inner, ok := anchored(re)
	if !ok {
		return "", fail("pattern", path, "without ^ at its beginning and $ at its end "+unsupported)
	}
	body, err := c.regexp(inner)
	if err != nil {
		return "", fail("pattern", path, "%v", err)
	}
	return c.rule(`"\"" ` + body + ` "\""`), nil
}

// anchored takes the anchors off both ends.
func anchored(re *syntax.Regexp) ([]*syntax.Regexp, bool) {
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 {
		return nil, false
	}
	n := len(re.Sub) - 1
	return re.Sub[1:n], re.Sub[0].Op == syntax.OpBeginText && re.Sub[n].Op == syntax.OpEndText
}

func (c *converter) regexp(list []*syntax.Regexp) (string, error) {
	parts := []string{`""`}
	for _, re := range list {
		x, err := c.regexpPart(re)
		if err != nil {
			return "", err
		}
		parts = append(parts, x)
	}
	return strings.Join(parts, " "), nil
}

func (c *converter) regexpPart(re *syntax.Regexp) (string, error) {
	count := ""
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return "", fmt.Errorf("letters of either case in %s are not supported", re)
		}
		quoted := quoteJSON(string(re.Rune))
		return literal(quoted[1 : len(quoted)-1]), nil
	case syntax.OpCharClass:
		return characters(re.Rune)
	case syntax.OpAnyCharNotNL:
		return characters([]rune{0, unicode.MaxRune})
	case syntax.OpEmptyMatch:
		return `""`, nil
	case syntax.OpCapture, syntax.OpConcat:
		body, err := c.regexp(re.Sub)
		return "(" + body + ")", err
	case syntax.OpAlternate:
		var list []string
		for _, sub := range re.Sub {
			x, err := c.regexpPart(sub)
			if err != nil {
				return "", err
			}
			list = append(list, x)
		}
		return oneOfThese(list), nil
	case syntax.OpStar:
		count = "*"
	case syntax.OpPlus:
		count = "+"
	case syntax.OpQuest:
		count = "?"
	case syntax.OpRepeat:
		count = times(re.Min, re.Max)
	default:
		return "", fmt.Errorf("%s is not supported", re)
	}
	body, err := c.regexpPart(re.Sub[0])
	return c.rule(body) + count, err
}

// characters is a set, given as pairs of ends, as it is written in a JSON text:
// quotes and backslashes are escaped, control characters left out.
func characters(pairs []rune) (string, error) {
	var set strings.Builder
	var list []string
	for pair := range slices.Chunk(pairs, 2) {
		for lo, hi := max(pair[0], ' '), min(pair[1], unicode.MaxRune); lo <= hi; {
			end := hi
			for _, special := range []rune{'"', '\\'} {
				if lo <= special && special <= end {
					end = special - 1
				}
			}
			if lo <= end {
				fmt.Fprintf(&set, `\U%08x-\U%08x`, lo, end)
			}
			if end < hi {
				list = append(list, literal(`\`+string(end+1)))
			}
			lo = end + 2
		}
	}
	if set.Len() > 0 {
		list = append(list, "["+set.String()+"]")
	}
	if len(list) == 0 {
		return "", fmt.Errorf("a set of control characters is not supported")
	}
	return oneOfThese(list), nil
}
