package jsongrammar

import (
	"github.com/firstframe/firstframe/shared/gbnf"
)

// Builder makes one grammar of several schemas and whatever stands between them.
type Builder struct{ c *converter }

// NewBuilder starts a grammar without rules.
func NewBuilder() *Builder { return &Builder{newConverter(nil)} }

// Schema gives an expression that matches what a schema accepts.
func (b *Builder) Schema(schema []byte) (string, error) {
	root, err := parseSchema(schema)
	if err != nil {
		return "", err
	}
	// References are into their own schema; only what any value is, is shared.
	kept := map[string]string{}
	if name, ok := b.c.refs[anyName]; ok {
		kept[anyName] = name
	}
	b.c.root, b.c.refs = root, kept
	return b.c.ref("#", "")
}

// Text gives an expression that matches a text.
func (b *Builder) Text(s string) string { return literal(s) }

// Rule gives an expression a name, which is an expression too.
func (b *Builder) Rule(body string) string { return b.c.rule(body) }

// Grammar is the whole, with an expression as its root.
func (b *Builder) Grammar(root string) (string, error) {
	text := b.c.grammar(root)
	if _, err := gbnf.Parse(text); err != nil {
		return "", &SchemaError{Reason: "it cannot be followed: " + err.Error()}
	}
	return text, nil
}
