package hcl

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// maxDepth bounds how deep parser and evaluation can recurse. A Go stack
	// that overflows ends the process and cannot be recovered from.
	maxDepth = 256
	// maxDigits bounds a number, since every digit of it would be computed.
	maxDigits = 40
)

// syntax parses one file after the checks that keep the parser out of trouble.
func (d *decoder) syntax(src Source) *hclsyntax.Body {
	text := bytes.TrimPrefix(src.Text, []byte("\xef\xbb\xbf"))
	if len(text) > maxFileBytes {
		d.unlocated("File too large", "%s is larger than %d bytes.", shown(src.Name), maxFileBytes)
		return nil
	}
	if i := notText(text); i >= 0 {
		// Without a subject: such bytes are not for a terminal.
		line := bytes.Count(text[:i], []byte("\n")) + 1
		d.unlocated("Not a text file", "%s:%d: this line is not UTF-8 text without control characters.", shown(src.Name), line)
		return nil
	}
	d.texts[src.Name] = text
	tokens, _ := hclsyntax.LexConfig(text, src.Name, hcl.InitialPos) // the parser says what is wrong with them
	if !d.tolerable(tokens) {
		return nil
	}
	file, diags := hclsyntax.ParseConfig(text, src.Name, hcl.InitialPos)
	d.add(diags)
	if diags.HasErrors() {
		return nil
	}
	return file.Body.(*hclsyntax.Body)
}

// notText finds the first byte that has no place in a configuration, or -1.
func notText(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' {
			return i
		}
		i += size
	}
	return -1
}

// frame is an open bracket, string or interpolation.
type frame struct {
	// item is how deep the item being read can be so far, deepest the most of
	// all items.
	item, deepest int
	// lines is set where the end of a line ends the item.
	lines bool
}

func (f *frame) add(levels int) {
	f.item += levels
	f.deepest = max(f.deepest, f.item)
}

// tolerable reports whether a file can be parsed without recursing too deep. It
// bounds the depth from above: whatever could make the syntax tree of one item
// a level deeper counts, and of items that stand side by side the deepest.
func (d *decoder) tolerable(tokens hclsyntax.Tokens) bool {
	stack := []frame{{lines: true}}
	depth := 0 // of the items on the stack together
	for _, tok := range tokens {
		top := &stack[len(stack)-1]
		ended := false
		switch tok.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			top.add(1)
			depth++
			stack = append(stack, frame{lines: tok.Type == hclsyntax.TokenOBrace})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if len(stack) > 1 {
				closed := *top
				stack = stack[:len(stack)-1]
				stack[len(stack)-1].add(closed.deepest)
				depth += closed.deepest - closed.item
			}
		case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr,
			hclsyntax.TokenBang, hclsyntax.TokenDot, hclsyntax.TokenDoubleColon, hclsyntax.TokenQuestion:
			top.add(1)
			depth++
		case hclsyntax.TokenComma:
			ended = true
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			ended = top.lines && bytes.HasSuffix(tok.Bytes, []byte("\n"))
		case hclsyntax.TokenNumberLit:
			if len(tok.Bytes) > maxDigits {
				d.errorf(tok.Range, "Number too long", "A number has at most %d digits.", maxDigits)
				return false
			}
		}
		if ended {
			depth -= top.item
			top.item = 0
		}
		if depth > maxDepth {
			d.errorf(tok.Range, "Too complex", "Brackets and operators are nested more than %d deep here.", maxDepth)
			return false
		}
	}
	return true
}
