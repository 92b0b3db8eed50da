package proxy

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// toolJSON is a function that a chat offers.
type toolJSON struct {
	Type     string       `json:"type"`
	Function functionJSON `json:"function"`
}

type functionJSON struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      *bool          `json:"strict"`
}

// callJSON is a call in a message: of one that a client sends, and of an answer,
// where the index is of pieces only.
type callJSON struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

const (
	maxTools    = 128
	maxToolName = 64
)

// setTools reads the tools of a chat and whether they are to be called.
func (r *chatRequest) setTools(req *shared.GenerateRequest) error {
	for _, t := range r.Tools {
		if t.Type != "function" {
			return unsupportedTool(t.Type)
		}
		if err := addTool(req, t.Function); err != nil {
			return err
		}
	}
	req.OneToolCall = r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	if err := chooseTool(req, r.ToolChoice, func() (string, bool) {
		var one toolJSON
		err := decodeJSON(r.ToolChoice, &one)
		return one.Function.Name, err == nil && one.Type == "function"
	}); err != nil {
		return err
	}
	return checkTools(req)
}

func unsupportedTool(kind string) error {
	return badRequest("unsupported_parameter", "tools", "tools of type %q are not supported", kind)
}

// addTool adds a function to those that a request offers.
func addTool(req *shared.GenerateRequest, f functionJSON) error {
	switch {
	case len(req.Tools) == maxTools:
		return badRequest("invalid_value", "tools", "at most %d tools are allowed", maxTools)
	case !validToolName(f.Name):
		return badRequest("invalid_value", "tools", "a function's name has 1 to 64 letters, digits, _ and -")
	}
	tool := shared.Tool{Name: f.Name, Description: f.Description}
	if p := f.Parameters; len(p) > 0 && p.Kind() != 'n' {
		if _, err := schemaGrammar(p, "tools"); err != nil {
			return err
		}
		tool.Parameters = string(p)
	}
	req.Tools = append(req.Tools, tool)
	return nil
}

// checkTools refuses what tools cannot be used with.
func checkTools(req *shared.GenerateRequest) error {
	switch {
	case len(req.Tools) == 0:
		return nil
	case req.Grammar != "":
		return badRequest("invalid_value", "tools", "tools cannot be used with a format of the answer or a grammar")
	case req.IgnoreEOS:
		return badRequest("invalid_value", "ignore_eos", "ignore_eos cannot be used with tools")
	}
	return nil
}

func validToolName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= maxToolName
}

// chooseTool reads tool_choice: a word, or the one function to call, of which
// named gives the name.
func chooseTool(req *shared.GenerateRequest, choice jsontext.Value, named func() (string, bool)) error {
	switch choice := string(choice); {
	case choice == "" || choice == "null" || choice == `"auto"`:
		return nil
	case choice == `"none"`:
		req.Tools = nil
		return nil
	case len(req.Tools) == 0:
		return badRequest("invalid_value", "tool_choice", "tool_choice needs tools")
	case choice == `"required"`:
		req.ToolChoice = shared.ToolRequired
		return nil
	}
	name, ok := named()
	if !ok {
		return badRequest("invalid_value", "tool_choice", "tool_choice is none, auto, required or a function")
	}
	return chooseOne(req, name)
}

// chooseOne has the model call one tool.
func chooseOne(req *shared.GenerateRequest, name string) error {
	for _, t := range req.Tools {
		if t.Name == name {
			req.ToolChoice, req.OnlyTool = shared.ToolRequired, name
			return nil
		}
	}
	return badRequest("invalid_value", "tool_choice", "there is no tool %q", name)
}

// toToolCalls are the calls of an earlier answer.
func toToolCalls(calls []callJSON) ([]shared.ToolCall, error) {
	var out []shared.ToolCall
	for i, c := range calls {
		if c.Type != "function" || c.Function.Name == "" {
			return nil, badRequest("invalid_value", "messages", "tool_calls are of type function and have a name")
		}
		if !isObject(c.Function.Arguments) {
			return nil, badRequest("invalid_value", "messages", "arguments of a tool call are a JSON object as text")
		}
		out = append(out, shared.ToolCall{Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return out, nil
}

func isObject(text string) bool {
	v := jsontext.Value(text)
	return v.IsValid() && v.Kind() == '{'
}

// toPieces are pieces of calls as a stream has them.
func toPieces(calls []shared.ToolCall) []callJSON {
	var out []callJSON
	for _, c := range calls {
		piece := callJSON{Index: &c.Index, ID: c.ID, Function: callFunction{Name: c.Name, Arguments: c.Arguments}}
		if c.ID != "" {
			piece.Type = "function"
		}
		out = append(out, piece)
	}
	return out
}

// joinCalls puts the pieces of calls together.
func joinCalls(pieces []shared.ToolCall) []callJSON {
	var out []callJSON
	for _, p := range pieces {
		if p.Index == len(out) {
			out = append(out, callJSON{ID: p.ID, Type: "function", Function: callFunction{Name: p.Name}})
		}
		out[p.Index].Function.Arguments += p.Arguments
	}
	return out
}
