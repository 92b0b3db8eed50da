package jsongrammar

import (
	"fmt"
	"slices"
	"strings"
)

// blank is the white space between the parts of an object or array.
const blank = `(" " | "\n" " "{0,16})?`

func (c *converter) blank() string { return c.rule(blank) }

// anyName is the rule of any value; no reference is spelled like it.
const anyName = "any"

func (c *converter) anyValue() string {
	if _, ok := c.refs[anyName]; !ok {
		c.refs[anyName] = anyName // before its parts, which contain it
		parts := []string{c.anyObject(), c.list(anyName), c.anyText(), c.anyNumber(), `"true"`, `"false"`, `"null"`}
		c.rules = append(c.rules, anyName+" ::= "+strings.Join(parts, " | "))
	}
	return anyName
}

func (c *converter) anyObject() string { return c.mapping(c.anyValue(), 0, noCount) }

// list is an array of any length.
func (c *converter) list(item string) string {
	return c.rule(c.brackets("[", "]", item+c.more(item, 0, noCount), true))
}

// more is a number of further items.
func (c *converter) more(item string, least, most int) string {
	return " (" + c.blank() + ` "," ` + c.blank() + " " + item + ")" + times(least, most)
}

func (c *converter) brackets(open, end, body string, optional bool) string {
	if optional {
		body = "(" + body + " " + c.blank() + ")?"
	} else {
		body += " " + c.blank()
	}
	return literal(open) + " " + c.blank() + " " + body + " " + literal(end)
}

// mapping is an object with free names.
func (c *converter) mapping(item string, least, most int) string {
	if most == 0 {
		return c.rule(`"{" ` + c.blank() + ` "}"`)
	}
	pair := c.anyText() + " " + c.colon() + " " + item
	further := noCount
	if most != noCount {
		further = most - 1
	}
	return c.rule(c.brackets("{", "}", pair+c.more(pair, 0, further), least == 0))
}

func (c *converter) colon() string { return c.rule(`":" " "?`) }

// property is one declared member of an object.
type property struct {
	name     string
	schema   *value
	required bool
}

func (c *converter) object(s *value, path string) (string, error) {
	props, err := properties(s, path)
	if err != nil {
		return "", err
	}
	least, most, err := limits(s, "minProperties", "maxProperties", path)
	if err != nil {
		return "", err
	}
	other, err := c.additional(s, path)
	if err != nil {
		return "", err
	}
	if len(props) == 0 {
		switch {
		case other == "" && least == 0:
			return c.mapping("", 0, 0), nil
		case other == "" || least > 1:
			// Free names may repeat, so how many there are is not known.
			return "", fail("minProperties", path, "of more than 1, without properties, "+unsupported)
		}
		return c.mapping(other, least, most), nil
	}
	required := 0
	var members []string
	for _, p := range props {
		value := other
		if p.schema != nil {
			if value, err = c.schema(p.schema, path+"/properties/"+p.name); err != nil {
				return "", err
			}
		}
		if value == "" {
			return "", fail("required", path, "%q is no property, and others are not allowed", p.name)
		}
		if p.required {
			required++
		}
		members = append(members, literal(quoteJSON(p.name))+" "+c.colon()+" "+value)
	}
	if least > required {
		return "", fail("minProperties", path, "of more than the required ones "+unsupported)
	}
	if most != noCount && most < len(props) {
		return "", fail("maxProperties", path, "of less than the declared ones "+unsupported)
	}
	body := c.members(members, props)
	return c.rule(`"{" ` + c.blank() + " " + body + ` "}"`), nil
}

// members are the properties in their order. From the last one on, there is a
// rule for what may follow when something is there already, and one for when
// nothing is.
func (c *converter) members(members []string, props []property) string {
	const nothing = `""`
	after, before := c.blank(), nothing // blanks only behind a member
	for i := len(members) - 1; i >= 0; i-- {
		next := c.blank() + ` "," ` + c.blank() + " " + members[i] + " " + after
		first := members[i] + " " + after
		if !props[i].required {
			next += " | " + after
			first += " | " + before
		}
		after, before = c.rule(next), c.rule(first)
	}
	return before
}

func properties(s *value, path string) ([]property, error) {
	var props []property
	if v := s.get("properties"); v != nil {
		if v.kind != '{' {
			return nil, fail("properties", path, "it is no object")
		}
		for _, m := range v.members {
			props = append(props, property{name: m.name, schema: m.value})
		}
	}
	v := s.get("required")
	if v == nil {
		return props, nil
	}
	if v.kind != '[' {
		return nil, fail("required", path, "it is no list")
	}
	for _, x := range v.items {
		if x.kind != '"' {
			return nil, fail("required", path, "%s is no name", x.json())
		}
		i := slices.IndexFunc(props, func(p property) bool { return p.name == x.text })
		if i < 0 {
			i = len(props)
			props = append(props, property{name: x.text})
		}
		props[i].required = true
	}
	return props, nil
}

// additional is the schema of members that are not declared; empty when there
// may be none.
func (c *converter) additional(s *value, path string) (string, error) {
	v := s.get("additionalProperties")
	switch {
	case v == nil:
		return c.anyValue(), nil
	case v.kind == 'f':
		return "", nil
	default:
		return c.schema(v, path+"/additionalProperties")
	}
}

func (c *converter) array(s *value, path string) (string, error) {
	if v := s.get("uniqueItems"); v != nil && v.kind != 'f' {
		return "", fail("uniqueItems", path, "not supported")
	}
	least, most, err := limits(s, "minItems", "maxItems", path)
	if err != nil {
		return "", err
	}
	var first []string
	if v := s.get("prefixItems"); v != nil {
		if v.kind != '[' {
			return "", fail("prefixItems", path, "it is no list")
		}
		for i, x := range v.items {
			item, err := c.schema(x, fmt.Sprintf("%s/prefixItems/%d", path, i))
			if err != nil {
				return "", err
			}
			first = append(first, item)
		}
	}
	item, err := c.items(s, path)
	if err != nil {
		return "", err
	}
	if most != noCount && most < len(first) {
		first = first[:most]
	}
	if item == "" {
		if least > len(first) {
			return "", fail("minItems", path, "there are not so many prefixItems, and others are not allowed")
		}
		most = len(first)
	}
	if most == 0 {
		return c.rule(`"[" ` + c.blank() + ` "]"`), nil
	}
	return c.rule(c.brackets("[", "]", c.sequence(first, item, least, most), least == 0)), nil
}

// sequence is the inside of an array that is not empty.
func (c *converter) sequence(first []string, item string, least, most int) string {
	n := len(first)
	if n == 0 {
		further := noCount
		if most != noCount {
			further = most - 1
		}
		return item + c.more(item, max(0, least-1), further)
	}
	rest := ""
	if item != "" && most != n {
		further := noCount
		if most != noCount {
			further = most - n
		}
		rest = c.more(item, max(0, least-n), further)
	}
	for i := n - 1; i > 0; i-- {
		rest = " " + c.blank() + ` "," ` + c.blank() + " " + first[i] + rest
		if i >= least {
			rest = " (" + rest + ")?"
		}
		rest = " " + c.rule(strings.TrimSpace(rest))
	}
	return first[0] + rest
}

// items is the schema of an array's items behind the first ones; empty when
// there may be none.
func (c *converter) items(s *value, path string) (string, error) {
	v := s.get("items")
	switch {
	case v == nil:
		return c.anyValue(), nil
	case v.kind == 'f':
		return "", nil
	case v.kind == '[':
		return "", fail("items", path, "as a list "+unsupported+": use prefixItems")
	default:
		return c.schema(v, path+"/items")
	}
}
