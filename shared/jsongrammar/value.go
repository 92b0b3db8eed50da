package jsongrammar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of a schema.
const maxDepth = 64

// value is a JSON value whose members keep their order.
type value struct {
	kind    jsontext.Kind
	text    string // of a string, or the literal of a number
	members []member
	items   []*value
}

type member struct {
	name  string
	value *value
}

func parseValue(data []byte) (*value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	v, err := readValue(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the schema is not one JSON value")
	}
	return v, nil
}

func readValue(dec *jsontext.Decoder, depth int) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	v := &value{kind: token.Kind()}
	switch v.kind {
	case '"', '0':
		v.text = token.String()
	case '{':
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			m := member{name: name.String()}
			if m.value, err = readValue(dec, depth+1); err != nil {
				return nil, err
			}
			v.members = append(v.members, m)
		}
		_, err = dec.ReadToken()
	case '[':
		for dec.PeekKind() != ']' {
			item, err := readValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
		_, err = dec.ReadToken()
	}
	return v, err
}

// get is a member's value, nil when there is none.
func (v *value) get(name string) *value {
	i := slices.IndexFunc(v.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return v.members[i].value
}

func (v *value) has(names ...string) bool {
	return slices.ContainsFunc(v.members, func(m member) bool { return slices.Contains(names, m.name) })
}

// json is the value as compact JSON.
func (v *value) json() string {
	switch v.kind {
	case '"':
		return quoteJSON(v.text)
	case '0':
		return v.text
	case '{', '[':
		var b bytes.Buffer
		b.WriteByte(byte(v.kind))
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteJSON(m.name) + ":" + m.value.json())
		}
		for i, x := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(x.json())
		}
		b.WriteByte(byte(v.kind) + 2) // the closing bracket, in ASCII
		return b.String()
	default:
		return v.kind.String()
	}
}

func quoteJSON(s string) string {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		return `""` // only text that is not UTF-8, which no decoded value has
	}
	return string(b)
}
