package proxy

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
	"github.com/firstframe/firstframe/shared/jsongrammar"
)

// responseFormat is what form a chat's answer has to have.
type responseFormat struct {
	Type       string      `json:"type"`
	JSONSchema *jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
	Strict      *bool          `json:"strict"`
}

// grammar is what the format demands; empty when any text will do.
func (f *responseFormat) grammar() (string, error) {
	const param = "response_format"
	switch {
	case f == nil:
		return "", nil
	case f.JSONSchema == nil:
		return formatGrammar(f.Type, nil, param, param)
	default:
		return formatGrammar(f.Type, f.JSONSchema.Schema, param, param+".json_schema.schema")
	}
}

// formatGrammar is what a format of a type, with a schema where there is one, demands.
func formatGrammar(kind string, schema jsontext.Value, param, schemaParam string) (string, error) {
	switch {
	case kind == "text" && schema == nil:
		return "", nil
	case kind == "json_object" && schema == nil:
		return jsongrammar.Object(), nil
	case kind == "json_schema" && len(schema) > 0:
		return schemaGrammar(schema, schemaParam)
	default:
		return "", badRequest("invalid_value", param, "%s is of type text, json_object, or json_schema with a schema", param)
	}
}

// schemaGrammar converts a schema; what it cannot honour is the client's error.
func schemaGrammar(schema jsontext.Value, param string) (string, error) {
	grammar, err := jsongrammar.FromSchema(schema)
	var own *jsongrammar.SchemaError
	if errors.As(err, &own) {
		return "", badRequest("invalid_json_schema", param, "%s", own.Error())
	}
	return grammar, err
}

// constrain sets the grammar that a request asks for, in one way only: with its
// own grammar, or with what a format demands.
func constrain(req *shared.GenerateRequest, own, demanded string) error {
	switch {
	case own == "":
		req.Grammar = demanded
	case demanded != "":
		return badRequest("invalid_value", "grammar", "grammar and a format of the answer exclude each other")
	default:
		if _, err := gbnf.Parse(own); err != nil {
			return badRequest("invalid_value", "grammar", "grammar: %s", err.Error())
		}
		req.Grammar = own
	}
	if req.Grammar != "" && req.IgnoreEOS {
		return badRequest("invalid_value", "ignore_eos", "ignore_eos cannot be used with a grammar, which says where the answer ends")
	}
	return nil
}
