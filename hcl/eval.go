package hcl

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// evaluator gives expressions their values: literals, local.NAME and env().
type evaluator struct {
	locals map[string]cty.Value
	// names holds the labels by block type, for references.
	names  map[string]map[string]bool
	lookup func(string) (string, bool)
}

func newEvaluator() *evaluator {
	return &evaluator{
		locals: map[string]cty.Value{}, lookup: os.LookupEnv,
		names: map[string]map[string]bool{"model": {}, "slot": {}},
	}
}

// evaluate finds the value of an expression; ok is false when it has none, which
// has been said then.
func (d *decoder) evaluate(expr hclsyntax.Expression) (v cty.Value, ok bool) {
	before := len(d.diags)
	d.allow(expr)
	if d.full() || len(d.diags) > before {
		return cty.NilVal, false
	}
	v, diags := expr.Value(d.context(expr))
	d.add(diags)
	if diags.HasErrors() {
		return cty.NilVal, false
	}
	if weigh(v, maxWeight) < 0 {
		d.errorf(expr.Range(), "Value too large", "A value may take %d bytes.", maxWeight)
		return cty.NilVal, false
	}
	return v, v.IsWhollyKnown() // else it depends on a local that is wrong, which was said there
}

// context holds just the locals that an expression names: one with all of them
// would cost as much as the whole file, for every key.
func (d *decoder) context(expr hclsyntax.Expression) *hcl.EvalContext {
	used := map[string]cty.Value{}
	for _, t := range expr.Variables() {
		name := localName(t)
		used[name] = d.eval.locals[name]
	}
	return &hcl.EvalContext{
		Variables: map[string]cty.Value{"local": cty.ObjectVal(used)},
		Functions: map[string]function.Function{"env": d.eval.env()},
	}
}

// env is env("NAME") or env("NAME", "default"). What could fail was found out
// before, so that no message is made here that might hold a value.
func (e *evaluator) env() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if v, ok := e.lookup(args[0].AsString()); ok {
				return cty.StringVal(v), nil
			}
			return args[len(args)-1], nil
		},
	})
}

// checkEnv says what is wrong with a call of env.
func (d *decoder) checkEnv(call *hclsyntax.FunctionCallExpr) {
	if len(call.Args) < 1 || len(call.Args) > 2 || call.ExpandFinal {
		d.errorf(call.Range(), "Wrong call", "It is env(\"NAME\") or env(\"NAME\", \"default\").")
		return
	}
	// A computed name might be a secret itself, and the message would show it.
	name, ok := literal(call.Args[0])
	if !ok || name == "" {
		d.errorf(call.Args[0].Range(), "Wrong call", "env needs the name of the variable in quotes.")
		return
	}
	v, found := d.eval.lookup(name)
	switch {
	case !found && len(call.Args) == 1:
		d.errorf(call.Range(), "Environment variable not set", "The environment variable %s is not set, and env has no default here.", name)
	case !utf8.ValidString(v):
		d.errorf(call.Range(), "Not text", "The environment variable %s is not UTF-8 text.", name)
	}
}

// literal is the text of a string without interpolations.
func literal(expr hclsyntax.Expression) (string, bool) {
	t, ok := expr.(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return "", false
	}
	v := t.Parts[0].(*hclsyntax.LiteralValueExpr).Val
	return v.AsString(), true
}

// localName is NAME of local.NAME or local["NAME"], and else empty.
func localName(t hcl.Traversal) string {
	if t.IsRelative() || t.RootName() != "local" || len(t) < 2 {
		return ""
	}
	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			return step.Key.AsString()
		}
	}
	return ""
}

// localSet finds the values of locals, in whatever order they stand.
type localSet struct {
	d     *decoder
	attrs map[string]*hclsyntax.Attribute
	path  []string // being evaluated, each for the one before
}

func (d *decoder) evaluateLocals(attrs map[string]*hclsyntax.Attribute) {
	for name := range attrs {
		d.eval.locals[name] = cty.NilVal // known, without a value yet
	}
	s := &localSet{d: d, attrs: attrs}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		s.resolve(name)
	}
}

// resolve gives one local its value, after those that it needs. One that cannot
// have a value gets one that makes everything depending on it unknown.
func (s *localSet) resolve(name string) {
	attr := s.attrs[name]
	if attr == nil || s.d.eval.locals[name] != cty.NilVal {
		return
	}
	if len(s.path) >= maxDepth {
		s.d.errorf(attr.NameRange, "Too complex", "More than %d locals depend on each other here.", maxDepth)
		s.d.eval.locals[name] = cty.DynamicVal
		return
	}
	if i := slices.Index(s.path, name); i >= 0 {
		circle := strings.Join(append(slices.Clone(s.path[i:]), name), " > ")
		s.d.errorf(attr.NameRange, "Circular locals", "The value of local.%s depends on itself: %s.", name, circle)
		s.d.eval.locals[name] = cty.DynamicVal
		return
	}
	s.path = append(s.path, name)
	for _, t := range attr.Expr.Variables() {
		s.resolve(localName(t))
	}
	s.path = s.path[:len(s.path)-1]
	if s.d.eval.locals[name] != cty.NilVal {
		return // it is in a circle
	}
	v, ok := s.d.evaluate(attr.Expr)
	if !ok {
		v = cty.DynamicVal
	}
	s.d.eval.locals[name] = v
}

// unknownLocal is the sentence for a local that is not declared.
func (d *decoder) unknownLocal(name string) string {
	return fmt.Sprintf("There is no local %q.%s", name, suggest(name, slices.Sorted(maps.Keys(d.eval.locals))))
}
