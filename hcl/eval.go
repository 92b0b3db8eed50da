package hcl

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// evaluator gives expressions their values: literals, local.NAME and env().
type evaluator struct {
	locals map[string]cty.Value
	names  map[string][]string // labels by block type, for references
	lookup func(string) (string, bool)
}

func newEvaluator() *evaluator {
	return &evaluator{locals: map[string]cty.Value{}, names: map[string][]string{}, lookup: os.LookupEnv}
}

func (e *evaluator) context() *hcl.EvalContext {
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{"local": cty.ObjectVal(e.locals)},
		Functions: map[string]function.Function{"env": e.env()},
	}
}

// value evaluates an expression. What a diagnostic would print of the values of
// variables is taken out, since they may come from the environment.
func (e *evaluator) value(expr hclsyntax.Expression) (cty.Value, hcl.Diagnostics) {
	v, diags := expr.Value(e.context())
	return v, withoutValues(diags)
}

func withoutValues(diags hcl.Diagnostics) hcl.Diagnostics {
	for _, d := range diags {
		d.Expression, d.EvalContext = nil, nil
	}
	return diags
}

// env is env("NAME") or env("NAME", "default").
func (e *evaluator) env() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) > 2 {
				return cty.NilVal, fmt.Errorf("takes a name and at most one default")
			}
			name := args[0].AsString()
			if v, ok := e.lookup(name); ok {
				return cty.StringVal(v), nil
			}
			if len(args) == 2 {
				return args[1], nil
			}
			return cty.NilVal, fmt.Errorf("the environment variable %s is not set and no default is given", name)
		},
	})
}

// evaluateLocals finds the values of all locals, in whatever order they stand.
func (d *decoder) evaluateLocals(attrs map[string]*hclsyntax.Attribute) {
	waiting := maps.Clone(attrs)
	for len(waiting) > 0 {
		before := len(waiting)
		for _, name := range slices.Sorted(maps.Keys(waiting)) {
			if !d.ready(waiting[name], waiting) {
				continue
			}
			v, diags := d.eval.value(waiting[name].Expr)
			d.diags = append(d.diags, diags...)
			if diags.HasErrors() {
				v = cty.DynamicVal
			}
			d.eval.locals[name] = v
			delete(waiting, name)
		}
		if len(waiting) == before {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		d.errorf(waiting[name].NameRange, "Circular locals", "The value of local.%s depends on itself.", name)
		d.eval.locals[name] = cty.DynamicVal
	}
}

// ready reports whether no variable of the expression still waits.
func (d *decoder) ready(attr *hclsyntax.Attribute, waiting map[string]*hclsyntax.Attribute) bool {
	for _, t := range attr.Expr.Variables() {
		if t.RootName() != "local" {
			continue
		}
		if len(t) < 2 {
			return len(waiting) == 1
		}
		if step, ok := t[1].(hcl.TraverseAttr); ok && waiting[step.Name] != nil {
			return false
		}
	}
	return true
}
