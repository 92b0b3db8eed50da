package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// node is a block whose keys were checked against the schema and evaluated.
type node struct {
	label  string
	rng    hcl.Range // of the block's header
	values map[string]value
	blocks map[string][]*node
}

type value struct {
	cty.Value
	rng hcl.Range
}

func (n *node) first(name string) *node {
	if n == nil || len(n.blocks[name]) == 0 {
		return nil
	}
	return n.blocks[name][0]
}

// decoder turns syntax into nodes. Diagnostics are collected, so that one run
// shows everything that is wrong.
type decoder struct {
	eval    *evaluator
	texts   map[string][]byte // by file name
	diags   hcl.Diagnostics
	dropped bool
}

// body decodes one block's body.
func (d *decoder) body(body *hclsyntax.Body, schema Block, n *node) {
	n.values, n.blocks = map[string]value{}, map[string][]*node{}
	d.attributes(body, schema, n)
	for _, b := range body.Blocks {
		d.block(b, schema, n)
	}
	for _, k := range schema.Keys {
		if _, ok := body.Attributes[k.Name]; k.Required && !ok {
			d.errorf(n.rng, "Missing key", "The key %q is required %s.", k.Name, place(schema))
		}
	}
}

// inOrder sorts attributes as they stand in the source.
func inOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(attrs), func(a, b *hclsyntax.Attribute) int {
		return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte
	})
}

func (d *decoder) attributes(body *hclsyntax.Body, schema Block, n *node) {
	for _, attr := range inOrder(body.Attributes) {
		if d.full() {
			return
		}
		i := slices.IndexFunc(schema.Keys, func(k Key) bool { return k.Name == attr.Name })
		switch {
		case i < 0 && schema.hasBlock(attr.Name):
			d.errorf(attr.NameRange, "Not a key", "%s is a block: it is written %s { … }, without an equals sign.", attr.Name, attr.Name)
		case i < 0:
			d.errorf(attr.NameRange, "Unknown key", "There is no key %q %s.%s", attr.Name, place(schema), nearest(attr.Name, schema))
		case schema.Keys[i].Later:
			d.notYet(attr.NameRange, "key", attr.Name)
		default:
			if v, ok := d.attribute(attr, schema.Keys[i]); ok {
				n.values[attr.Name] = value{Value: v, rng: attr.Expr.Range()}
			}
		}
	}
}

func (d *decoder) attribute(attr *hclsyntax.Attribute, key Key) (cty.Value, bool) {
	if key.Type == typeModel || key.Type == typeSlot {
		root := strings.TrimPrefix(string(key.Type), "reference to a ")
		return d.reference(attr, root)
	}
	v, ok := d.evaluate(attr.Expr)
	if !ok {
		return cty.NilVal, false
	}
	converted, err := convert.Convert(v, key.Type.cty())
	if err != nil || converted.IsNull() {
		d.errorf(attr.Expr.Range(), "Wrong type", "The key %q needs a %s.", key.Name, key.Type)
		return cty.NilVal, false
	}
	if key.Type == typeString && !usable(converted.AsString()) {
		// Not taken for a key that is not set: an empty digest would be one that
		// nothing is compared with.
		d.errorf(attr.Expr.Range(), "Unusable text", "The key %q needs text that is not empty and has no control characters.", key.Name)
		return cty.NilVal, false
	}
	return converted, true
}

func usable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, unicode.IsControl)
}

// reference reads model.NAME or slot.NAME.
func (d *decoder) reference(attr *hclsyntax.Attribute, root string) (cty.Value, bool) {
	names := d.eval.names[root]
	traversal, diags := hcl.AbsTraversalForExpr(attr.Expr)
	if diags.HasErrors() || traversal.RootName() != root || len(traversal) != 2 {
		d.errorf(attr.Expr.Range(), "Not a reference", "The key %q needs a reference such as %s.NAME.", attr.Name, root)
		return cty.NilVal, false
	}
	var name string
	switch step := traversal[1].(type) {
	case hcl.TraverseAttr:
		name = step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			name = step.Key.AsString()
		}
	}
	if !names[name] {
		d.errorf(attr.Expr.Range(), "Unknown reference", "There is no %s %q.%s", root, name, suggest(name, slices.Sorted(maps.Keys(names))))
		return cty.NilVal, false
	}
	return cty.StringVal(name), true
}

func (d *decoder) block(b *hclsyntax.Block, schema Block, n *node) {
	if d.full() {
		return
	}
	i := slices.IndexFunc(schema.Blocks, func(s Block) bool { return s.Name == b.Type })
	switch {
	case i < 0 && schema.hasKey(b.Type):
		d.errorf(b.TypeRange, "Not a block", "%s is a key: it is written %s = …, with an equals sign.", b.Type, b.Type)
		return
	case i < 0:
		d.errorf(b.TypeRange, "Unknown block", "There is no block %q %s.%s", b.Type, place(schema), nearest(b.Type, schema))
		return
	}
	s := schema.Blocks[i]
	if s.Later {
		d.notYet(b.TypeRange, "block", b.Type)
		return
	}
	child := &node{rng: b.DefRange()}
	switch {
	case s.Label == "" && len(b.Labels) > 0:
		d.errorf(b.LabelRanges[0], "Unexpected label", "A %s block has no label.", s.Name)
		return
	case s.Label != "" && len(b.Labels) != 1:
		d.errorf(b.DefRange(), "Wrong number of labels", "A %s block needs exactly one label, its %s.", s.Name, s.Label)
		return
	case s.Label != "":
		child.label, child.rng = b.Labels[0], b.LabelRanges[0]
	}
	if earlier := n.blocks[s.Name]; !s.Many && len(earlier) > 0 {
		d.errorf(b.TypeRange, "Repeated block", "There is already a %s block at %s.", s.Name, at(earlier[0].rng))
		return
	}
	n.blocks[s.Name] = append(n.blocks[s.Name], child)
	if s.Name == "locals" {
		return // evaluated before everything else
	}
	d.body(b.Body, s, child)
}

// nearest names the key or block that was probably meant: one of the same name
// elsewhere, one of a similar name, or else all that there is.
func nearest(name string, schema Block) string {
	names := schema.names()
	if near := suggest(name, names); near != "" {
		return near
	}
	if owner := Schema().owner(name); owner != "" {
		return fmt.Sprintf(" It belongs %s.", owner)
	}
	if len(names) == 0 {
		return ""
	}
	return " Known here: " + strings.Join(names, ", ") + "."
}

// suggest is a sentence with the nearest of the names, or nothing when none is near.
func suggest(name string, names []string) string {
	best, distance := "", len(name)/2+1
	for _, n := range names {
		if d := levenshtein.Distance(name, n, nil); d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

func place(schema Block) string {
	if schema.Name == "" {
		return "at the top level"
	}
	if strings.HasPrefix(schema.Name, "a") {
		return "in an " + schema.Name + " block"
	}
	return "in a " + schema.Name + " block"
}

func at(rng hcl.Range) string {
	return fmt.Sprintf("%s:%d", shown(rng.Filename), rng.Start.Line)
}
