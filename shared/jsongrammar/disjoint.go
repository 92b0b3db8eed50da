package jsongrammar

import (
	"slices"
	"strings"
)

// checkDisjoint refuses alternatives of which a value could match two: then it
// would not match exactly one.
func (c *converter) checkDisjoint(list []*value, path string) error {
	for i, a := range list {
		for _, b := range list[:i] {
			if !c.disjoint(a, b, 0) {
				return fail("oneOf", path, "a value could match two of the schemas; only schemas that differ in type or in "+
					"the constant of a required property are supported, or use anyOf")
			}
		}
	}
	return nil
}

// disjoint says whether it is certain that no value matches both.
func (c *converter) disjoint(a, b *value, depth int) bool {
	a, b = c.follow(a), c.follow(b)
	if a == nil || b == nil || depth > maxDepth {
		return false
	}
	if x, y := constants(a), constants(b); x != nil && y != nil {
		return !slices.ContainsFunc(x, func(v string) bool { return slices.Contains(y, v) })
	}
	x, y := kinds(a), kinds(b)
	if x == nil || y == nil {
		return false
	}
	var common []string
	for _, t := range x {
		if slices.Contains(y, t) {
			common = append(common, t)
		}
	}
	switch {
	case len(common) == 0:
		return true
	case !slices.Equal(common, []string{"object"}):
		return false
	}
	p, errA := properties(a, "")
	q, errB := properties(b, "")
	if errA != nil || errB != nil {
		return false
	}
	for _, m := range p {
		i := slices.IndexFunc(q, func(o property) bool { return o.name == m.name })
		if i < 0 || !m.required || !q[i].required || m.schema == nil || q[i].schema == nil {
			continue
		}
		if c.disjoint(m.schema, q[i].schema, depth+1) {
			return true
		}
	}
	return false
}

// follow gives what a chain of references leads to, nil when that is not known.
func (c *converter) follow(s *value) *value {
	for range maxDepth {
		ref := s.get("$ref")
		if s.kind != '{' || ref == nil {
			return s
		}
		next, err := c.resolve(ref.text, "")
		if err != nil {
			return nil
		}
		s = next
	}
	return nil
}

// constants are the only values of a schema as comparable text, nil when others
// are possible. Numbers and what contains them can be written in several ways and
// count as others.
func constants(s *value) []string {
	values := []*value{}
	if v := s.get("const"); v != nil {
		values = append(values, v)
	} else if v := s.get("enum"); v != nil {
		values = v.items
	}
	var list []string
	for _, v := range values {
		if strings.ContainsRune(`"tfn`, rune(v.kind)) {
			list = append(list, v.json())
			continue
		}
		return nil
	}
	return list
}

// kinds are the types that a schema allows, nil when that is not known. Integers
// are numbers.
func kinds(s *value) []string {
	if s.kind != '{' || s.has("anyOf", "oneOf", "allOf") {
		return nil
	}
	if list := s.get("enum"); list != nil || s.has("const") {
		values := []*value{s.get("const")}
		if list != nil {
			values = list.items
		}
		var types []string
		for _, v := range values {
			for _, t := range []string{"object", "array", "string", "number", "boolean", "null"} {
				if v.is(t) {
					types = append(types, t)
				}
			}
		}
		return types
	}
	if !s.has("type") {
		return nil
	}
	types, err := typesOf(s, "")
	if err != nil {
		return nil
	}
	for i, t := range types {
		if t == "integer" {
			types[i] = "number"
		}
	}
	return types
}
