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
	case f == nil || f.Type == "text" && f.JSONSchema == nil:
		return "", nil
	case f.Type == "json_object" && f.JSONSchema == nil:
		return jsongrammar.Object(), nil
	case f.Type == "json_schema" && f.JSONSchema != nil && len(f.JSONSchema.Schema) > 0:
		return schemaGrammar(f.JSONSchema.Schema, param+".json_schema.schema")
	default:
		return "", badRequest("invalid_value", param,
			"response_format is of type text, json_object, or json_schema with a schema in json_schema")
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

// constrain sets the grammar that a request asks for, in one way only.
func constrain(req *shared.GenerateRequest, own string, format *responseFormat) error {
	demanded, err := format.grammar()
	switch {
	case err != nil:
		return err
	case own == "":
		req.Grammar = demanded
	case demanded != "":
		return badRequest("invalid_value", "grammar", "grammar and response_format exclude each other")
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
