package slotworker

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/jsongrammar"
)

// toolFormat is how a family of models writes calls of tools. In all of them a
// call is an object of a name and arguments, in this order.
type toolFormat struct {
	marker    string // what calls begin with; empty when they are the whole answer
	begin     string // between marker and object, as a grammar
	end       string // behind the object
	between   string // between an end and the next object; empty when there is one call only
	close     string // behind the last end
	arguments string // the name of the arguments
	more      string // what may follow the arguments in the object
}

// someSpace is the blank that models put between the parts of a call.
const someSpace = ` " "? `

// detectTools finds the format in a chat template, nil when there is none that
// is known.
func detectTools(template string) *toolFormat {
	const lines = ` [ \n]{0,2} `
	switch shared.TemplateTools(template) {
	case shared.ToolsTagged:
		return &toolFormat{
			marker: "<tool_call>", begin: lines, end: lines + `"</tool_call>"`, between: lines + `"<tool_call>"` + lines,
			arguments: "arguments",
		}
	case shared.ToolsListed:
		return &toolFormat{
			marker: "[TOOL_CALLS]", begin: someSpace + `"["` + someSpace, between: `","` + someSpace, close: someSpace + `"]"`,
			arguments: "arguments", more: `("," ` + someSpace + `"\"id\":"` + someSpace + `"\"" [a-zA-Z0-9]{9} "\"")?`,
		}
	case shared.ToolsUnmarked:
		return &toolFormat{arguments: "parameters"}
	default:
		return nil
	}
}

// toolObject is where the object of a call begins when nothing marks it.
const toolObject = `{"name"`

// grammar is what calls have to follow: all of it, from the marker on, and what
// comes behind the marker.
func (f *toolFormat) grammar(req shared.GenerateRequest) (whole, behind string, err error) {
	b := jsongrammar.NewBuilder()
	var calls []string
	for i, tool := range req.Tools {
		if tool.Name == "" {
			return "", "", invalid("tools", "tool %d has no name", i)
		}
		if req.OnlyTool != "" && tool.Name != req.OnlyTool {
			continue
		}
		schema := tool.Parameters
		if schema == "" {
			schema = `{"type":"object","additionalProperties":false}`
		}
		arguments, err := b.Schema([]byte(schema))
		if err != nil {
			var own *jsongrammar.SchemaError
			if errors.As(err, &own) {
				return "", "", invalid("tools", "parameters of tool %s: %w", tool.Name, err)
			}
			return "", "", err
		}
		calls = append(calls, b.Text(jsonText(tool.Name))+` ","`+someSpace+b.Text(jsonText(f.arguments)+":")+someSpace+arguments)
	}
	if len(calls) == 0 {
		return "", "", invalid("tool_choice", "there is no tool %q", req.OnlyTool)
	}
	// The object behind its name's key, which an unmarked call is recognized by.
	object := `":"` + someSpace + "(" + strings.Join(calls, " | ") + ") " + f.more + someSpace + `"}"`
	if f.marker == "" {
		behind, err = b.Grammar(object)
		if err == nil {
			whole, err = b.Grammar(b.Text(toolObject) + " " + object)
		}
		return whole, behind, err
	}
	one := b.Rule(`"{"` + someSpace + b.Text(`"name"`) + " " + object + f.end)
	all := f.begin + one
	if !req.OneToolCall {
		all += " (" + f.between + one + ")*"
	}
	all = b.Rule(all + f.close)
	behind, err = b.Grammar(all)
	if err == nil {
		whole, err = b.Grammar(b.Text(f.marker) + " " + all)
	}
	return whole, behind, err
}

func jsonText(s string) string {
	b, _ := json.Marshal(s) // of a text it cannot fail
	return string(b)
}

// trigger finds where calls begin in an answer: at is where the marked text
// begins, end where it ends. While that is not certain, at is where it could
// begin; when it cannot, at is the text's length.
func (f *toolFormat) trigger(text string) (at, end int, found bool) {
	if f.marker != "" {
		if at = strings.Index(text, f.marker); at >= 0 {
			return at, at + len(f.marker), true
		}
		for n := min(len(f.marker)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, f.marker[:n]) {
				return len(text) - n, 0, false
			}
		}
		return len(text), 0, false
	}
	// Only the whole answer is a call: white space, a bracket and the name's key.
	rest := strings.TrimLeft(text, " \n\t")
	body, bracket := strings.CutPrefix(rest, "{")
	body = strings.TrimLeft(body, " \n\t")
	key := toolObject[1:]
	switch {
	case bracket && strings.HasPrefix(body, key):
		return 0, len(text) - len(body) + len(key), true
	case rest == "" || bracket && strings.HasPrefix(key, body):
		return 0, 0, false
	default:
		return len(text), 0, false
	}
}
