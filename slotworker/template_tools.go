package slotworker

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// templateTurn is a message as templates read it.
func templateTurn(m shared.Message) (jinja.Value, error) {
	turn := dict("role", jinja.NewString(m.Role), "content", jinja.NewString(m.Content))
	if m.ToolCallID != "" {
		turn.AsDict().Set("tool_call_id", jinja.NewString(m.ToolCallID))
	}
	if m.Reasoning != "" {
		turn.AsDict().Set("reasoning_content", jinja.NewString(m.Reasoning))
	}
	if len(m.ToolCalls) == 0 {
		return turn, nil
	}
	calls := make([]jinja.Value, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		arguments, err := templateJSON(c.Arguments)
		if err != nil {
			return turn, fmt.Errorf("arguments of the call of %s: %w", c.Name, err)
		}
		calls[i] = dict("id", jinja.NewString(c.ID), "type", jinja.NewString("function"),
			"function", dict("name", jinja.NewString(c.Name), "arguments", arguments))
	}
	turn.AsDict().Set("tool_calls", jinja.NewList(calls))
	return turn, nil
}

// templateTools is the list of tools as templates read it, none when there are none.
func templateTools(tools []shared.Tool) (jinja.Value, error) {
	if len(tools) == 0 {
		return jinja.None(), nil
	}
	list := make([]jinja.Value, len(tools))
	for i, t := range tools {
		function := dict("name", jinja.NewString(t.Name), "description", jinja.NewString(t.Description))
		schema := t.Parameters
		if schema == "" {
			schema = `{"type":"object","properties":{}}`
		}
		parameters, err := templateJSON(schema)
		if err != nil {
			return jinja.None(), fmt.Errorf("parameters of %s: %w", t.Name, err)
		}
		function.AsDict().Set("parameters", parameters)
		list[i] = dict("type", jinja.NewString("function"), "function", function)
	}
	return jinja.NewList(list), nil
}

// dict is made of names and values in turn.
func dict(pairs ...any) jinja.Value {
	d := jinja.NewDict()
	for i := 0; i < len(pairs); i += 2 {
		d.AsDict().Set(pairs[i].(string), pairs[i+1].(jinja.Value))
	}
	return d
}

// maxTemplateJSON bounds how deep values are nested that templates get.
const maxTemplateJSON = 100

// templateJSON is a JSON text as a value, with members in their order.
func templateJSON(text string) (jinja.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBufferString(text))
	return templateValue(dec, 0)
}

func templateValue(dec *jsontext.Decoder, depth int) (jinja.Value, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return jinja.None(), err
	}
	if depth > maxTemplateJSON {
		return jinja.None(), errors.New("it is nested too deep")
	}
	switch token.Kind() {
	case '{':
		d := jinja.NewDict()
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return d, err
			}
			key := name.String()
			value, err := templateValue(dec, depth+1)
			if err != nil {
				return d, err
			}
			d.AsDict().Set(key, value)
		}
		_, err = dec.ReadToken()
		return d, err
	case '[':
		var items []jinja.Value
		for dec.PeekKind() != ']' {
			item, err := templateValue(dec, depth+1)
			if err != nil {
				return jinja.None(), err
			}
			items = append(items, item)
		}
		_, err = dec.ReadToken()
		return jinja.NewList(items), err
	case '"':
		return jinja.NewString(token.String()), nil
	case '0':
		if n, err := strconv.ParseInt(token.String(), 10, 64); err == nil {
			return jinja.NewInt(n), nil
		}
		f, err := strconv.ParseFloat(token.String(), 64)
		return jinja.NewFloat(f), err
	case 't', 'f':
		return jinja.NewBool(token.Kind() == 't'), nil
	default:
		return jinja.None(), nil
	}
}
