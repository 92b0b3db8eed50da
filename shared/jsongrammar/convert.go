package jsongrammar

import (
	"fmt"
	"slices"
	"strings"
)

// MaxBytes bounds a schema.
const MaxBytes = 128 << 10

// SchemaError says what in a schema cannot be honoured.
type SchemaError struct {
	Keyword string // empty when no keyword is at fault
	Path    string // where in the schema, as a JSON pointer
	Reason  string
}

func (e *SchemaError) Error() string {
	where := ""
	if e.Path != "" {
		where = " at " + e.Path
	}
	if e.Keyword == "" {
		return "the schema" + where + ": " + e.Reason
	}
	return fmt.Sprintf("schema keyword %q%s: %s", e.Keyword, where, e.Reason)
}

// Object is the grammar of any JSON object.
func Object() string {
	c := newConverter(nil)
	return c.grammar(c.anyObject())
}

// FromSchema is the grammar of the JSON that a schema accepts.
func FromSchema(schema []byte) (string, error) {
	b := NewBuilder()
	body, err := b.Schema(schema)
	if err != nil {
		return "", err
	}
	return b.Grammar(body)
}

func parseSchema(schema []byte) (*value, error) {
	if len(schema) > MaxBytes {
		return nil, &SchemaError{Reason: fmt.Sprintf("it has more than %d bytes", MaxBytes)}
	}
	root, err := parseValue(schema)
	if err != nil {
		return nil, &SchemaError{Reason: err.Error()}
	}
	return root, nil
}

// converter collects the rules of one grammar. Its methods give expressions that
// can stand anywhere in a rule.
type converter struct {
	root  *value
	rules []string
	names map[string]string // by body
	refs  map[string]string // by pointer into the schema
	depth int

	refCount int // of all schemas
}

func newConverter(root *value) *converter {
	return &converter{root: root, names: map[string]string{}, refs: map[string]string{}}
}

// rule gives a body a name; equal bodies share one.
func (c *converter) rule(body string) string {
	if name, ok := c.names[body]; ok {
		return name
	}
	name := fmt.Sprintf("r%d", len(c.names))
	c.names[body] = name
	c.rules = append(c.rules, name+" ::= "+body)
	return name
}

func (c *converter) grammar(root string) string {
	return "root ::= " + root + "\n" + strings.Join(c.rules, "\n") + "\n"
}

// literal is a text in the notation of grammars.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7F:
			fmt.Fprintf(&b, "\\x%02x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func oneOfThese(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return "(" + strings.Join(list, " | ") + ")"
}

func fail(keyword, path, format string, args ...any) error {
	return &SchemaError{Keyword: keyword, Path: path, Reason: fmt.Sprintf(format, args...)}
}

const unsupported = "is not supported"

// Keywords that say nothing about which values are right.
func isAnnotation(name string) bool {
	return slices.Contains([]string{"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default",
		"examples", "deprecated", "readOnly", "writeOnly"}, name)
}

// Keywords of one type of values each.
func keywords(of string) []string {
	switch of {
	case "object":
		return []string{"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
	case "array":
		return []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}
	case "string":
		return []string{"minLength", "maxLength", "pattern", "format"}
	case "number", "integer":
		return []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
	default:
		return nil
	}
}

func allTypes() []string {
	return []string{"object", "array", "string", "integer", "number", "boolean", "null"}
}

// schema converts one schema.
func (c *converter) schema(s *value, path string) (string, error) {
	if c.depth++; c.depth > maxDepth {
		return "", fail("", path, "it is nested deeper than %d", maxDepth)
	}
	defer func() { c.depth-- }()
	switch s.kind {
	case 't':
		return c.anyValue(), nil
	case 'f':
		return "", fail("false", path, "a schema that accepts nothing "+unsupported)
	case '{':
	default:
		return "", fail("", path, "a schema is an object or a boolean")
	}
	if err := checkKeywords(s, path); err != nil {
		return "", err
	}
	for _, alone := range []string{"$ref", "const", "enum", "anyOf", "oneOf", "allOf"} {
		v := s.get(alone)
		if v == nil {
			continue
		}
		for _, m := range s.members {
			typed := m.name == "type" && (alone == "const" || alone == "enum")
			if m.name != alone && !isAnnotation(m.name) && !typed {
				return "", fail(m.name, path, "together with %s %s", alone, unsupported)
			}
		}
		return c.alone(alone, v, s, path)
	}
	types, err := typesOf(s, path)
	if err != nil {
		return "", err
	}
	if types == nil {
		return c.anyValue(), nil
	}
	var list []string
	for _, t := range types {
		if t == "integer" && slices.Contains(types, "number") {
			continue
		}
		x, err := c.typed(t, s, path)
		if err != nil {
			return "", err
		}
		list = append(list, x)
	}
	return oneOfThese(list), nil
}

func checkKeywords(s *value, path string) error {
	known := []string{"type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf"}
	for _, t := range allTypes() {
		known = append(known, keywords(t)...)
	}
	for _, m := range s.members {
		if !isAnnotation(m.name) && !slices.Contains(known, m.name) {
			return fail(m.name, path, "not supported")
		}
	}
	return nil
}

// typesOf is what a schema says of the type; without that, the type that its
// keywords are about; nil when nothing is said.
func typesOf(s *value, path string) ([]string, error) {
	t := s.get("type")
	if t == nil {
		for _, name := range []string{"object", "array", "string", "number"} {
			if s.has(keywords(name)...) {
				return []string{name}, nil
			}
		}
		return nil, nil
	}
	list := []*value{t}
	if t.kind == '[' {
		list = t.items
	}
	var types []string
	for _, x := range list {
		if x.kind != '"' || !slices.Contains(allTypes(), x.text) {
			return nil, fail("type", path, "%s is no type", x.json())
		}
		types = append(types, x.text)
	}
	if len(types) == 0 {
		return nil, fail("type", path, "the list is empty")
	}
	return types, nil
}

func (c *converter) typed(t string, s *value, path string) (string, error) {
	switch t {
	case "object":
		return c.object(s, path)
	case "array":
		return c.array(s, path)
	case "string":
		return c.text(s, path)
	case "integer":
		return c.integer(s, path)
	case "number":
		return c.number(s, path)
	case "boolean":
		return `("true" | "false")`, nil
	default:
		return `"null"`, nil
	}
}

// alone converts a schema that one keyword decides.
func (c *converter) alone(keyword string, v, s *value, path string) (string, error) {
	switch keyword {
	case "$ref":
		if v.kind != '"' {
			return "", fail(keyword, path, "it is no text")
		}
		return c.ref(v.text, path)
	case "const":
		return c.fixed([]*value{v}, keyword, s, path)
	case "enum":
		if v.kind != '[' || len(v.items) == 0 {
			return "", fail(keyword, path, "it is no list of values")
		}
		return c.fixed(v.items, keyword, s, path)
	}
	if v.kind != '[' || len(v.items) == 0 {
		return "", fail(keyword, path, "it is no list of schemas")
	}
	if keyword == "allOf" && len(v.items) > 1 {
		return "", fail(keyword, path, "with more than one schema "+unsupported)
	}
	if keyword == "oneOf" {
		if err := c.checkDisjoint(v.items, path); err != nil {
			return "", err
		}
	}
	var list []string
	for i, x := range v.items {
		e, err := c.schema(x, fmt.Sprintf("%s/%s/%d", path, keyword, i))
		if err != nil {
			return "", err
		}
		list = append(list, e)
	}
	return oneOfThese(list), nil
}

// fixed is one of some values; those that contradict the type are left out.
func (c *converter) fixed(values []*value, keyword string, s *value, path string) (string, error) {
	var types []string
	if s.has("type") {
		var err error
		if types, err = typesOf(s, path); err != nil {
			return "", err
		}
	}
	var list []string
	for _, v := range values {
		if types == nil || slices.ContainsFunc(types, v.is) {
			list = append(list, literal(v.json()))
		}
	}
	if len(list) == 0 {
		return "", fail(keyword, path, "no value is of the type")
	}
	return oneOfThese(list), nil
}

// ref is the rule of another place in the same schema, which may be one that is
// being converted.
func (c *converter) ref(pointer, path string) (string, error) {
	if name, ok := c.refs[pointer]; ok {
		return name, nil
	}
	target, err := c.resolve(pointer, path)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("ref%d", c.refCount)
	c.refCount++
	c.refs[pointer] = name
	body, err := c.schema(target, strings.TrimPrefix(pointer, "#"))
	if err != nil {
		return "", err
	}
	c.rules = append(c.rules, name+" ::= "+body)
	return name, nil
}

func (c *converter) resolve(pointer, path string) (*value, error) {
	rest, ok := strings.CutPrefix(pointer, "#")
	if !ok || rest != "" && rest[0] != '/' {
		return nil, fail("$ref", path, "only references inside the schema, such as #/$defs/name, are supported, not %q", pointer)
	}
	v := c.root
	if rest == "" {
		return v, nil
	}
	for part := range strings.SplitSeq(rest[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		next := v.get(part)
		if v.kind == '[' {
			var i int
			if n, err := fmt.Sscan(part, &i); n == 1 && err == nil && i >= 0 && i < len(v.items) {
				next = v.items[i]
			}
		}
		if next == nil {
			return nil, fail("$ref", path, "there is nothing at %q", pointer)
		}
		v = next
	}
	return v, nil
}
