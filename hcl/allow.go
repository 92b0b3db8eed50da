package hcl

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const (
	// maxWeight bounds a value: locals that repeat one another double in size
	// with every line.
	maxWeight = 1 << 14
	// maxExponent bounds numbers by their binary exponent. As text, a number
	// has as many digits as its exponent says.
	maxExponent = 256
)

// allow reports what an expression may not contain. It leaves nothing that costs
// more than the length of the file, or whose error could show a value.
func (d *decoder) allow(expr hclsyntax.Expression) {
	before := len(d.diags)
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		if len(d.diags) > before {
			return nil // what else is wrong with it mostly follows from that
		}
		switch n := n.(type) {
		case *hclsyntax.LiteralValueExpr:
			if weigh(n.Val, maxWeight) < 0 {
				d.errorf(n.Range(), "Value too large", "This number or text is too large.")
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name != "env" {
				d.errorf(n.NameRange, "Unknown function", "There is no function of this name; the only one is env.")
				break
			}
			d.checkEnv(n)
		case *hclsyntax.ScopeTraversalExpr:
			d.allowVariable(n)
		case *hclsyntax.ObjectConsKeyExpr:
			if _, quoted := literal(n.Wrapped); hcl.ExprAsKeyword(n.Wrapped) == "" && !quoted || n.ForceNonLiteral {
				d.errorf(n.Range(), "Computed key", "The keys of an object are names, bare or in quotes.")
			}
		case *hclsyntax.BinaryOpExpr:
			if arithmetic(n.Op) && (!d.numeric(n.LHS) || !d.numeric(n.RHS)) {
				d.errorf(n.Range(), "Not a number", "Arithmetic needs numbers, which stand without quotes.")
			}
		case *hclsyntax.UnaryOpExpr:
			if n.Op == hclsyntax.OpNegate && !d.numeric(n.Val) {
				d.errorf(n.Range(), "Not a number", "Arithmetic needs numbers, which stand without quotes.")
			}
		case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.ParenthesesExpr,
			*hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ConditionalExpr:
		case hclsyntax.Expression:
			d.errorf(n.Range(), "Unsupported expression",
				"A value is made of text, numbers, lists, local.NAME, env(), conditions and arithmetic; nothing is looked up or repeated.")
		}
		return nil
	})
}

func (d *decoder) allowVariable(n *hclsyntax.ScopeTraversalExpr) {
	name := localName(n.Traversal)
	root := n.Traversal.RootName()
	_, known := d.eval.locals[name]
	switch {
	case root == "model" || root == "slot":
		d.errorf(n.Range(), "Unexpected reference", "A reference %s.NAME is a whole value, and only where a %s is wanted.", root, root)
	case root != "local":
		d.errorf(n.Range(), "Unknown name", "There is no %q here; text stands in quotes, and values come from local.NAME.", root)
	case name == "":
		d.errorf(n.Range(), "Incomplete name", "A local is written local.NAME.")
	case !known:
		d.errorf(n.Range(), "Unknown local", "%s", d.unknownLocal(name))
	}
}

func arithmetic(op *hclsyntax.Operation) bool {
	return slices.Contains([]*hclsyntax.Operation{
		hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply, hclsyntax.OpDivide, hclsyntax.OpModulo,
	}, op)
}

// numeric reports whether an expression is a number by itself. Text is not: it
// could be a number with a billion digits.
func (d *decoder) numeric(expr hclsyntax.Expression) bool {
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return true // text is a template
	case *hclsyntax.ParenthesesExpr:
		return d.numeric(e.Expression)
	case *hclsyntax.BinaryOpExpr:
		return arithmetic(e.Op)
	case *hclsyntax.UnaryOpExpr:
		return e.Op == hclsyntax.OpNegate
	case *hclsyntax.ScopeTraversalExpr:
		v := d.eval.locals[localName(e.Traversal)]
		if v == cty.NilVal || !v.IsKnown() {
			return true // wrong by itself, and said there
		}
		return v.Type() == cty.Number
	}
	return false
}

// weigh takes the size of a value off an allowance. What it returns is negative
// once the value is larger, and then no more of it is looked at.
func weigh(v cty.Value, left int) int {
	left--
	switch {
	case left < 0 || !v.IsKnown() || v.IsNull():
	case v.Type() == cty.String:
		left -= len(v.AsString())
	case v.Type() == cty.Number:
		f := v.AsBigFloat()
		if e := f.MantExp(nil); f.IsInf() || e > maxExponent || e < -maxExponent {
			return -1
		}
	case v.CanIterateElements():
		for it := v.ElementIterator(); left >= 0 && it.Next(); {
			k, element := it.Element()
			left = weigh(element, weigh(k, left))
		}
	}
	return left
}
