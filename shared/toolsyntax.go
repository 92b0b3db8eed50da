package shared

import "strings"

// ToolSyntax is how a family of models writes calls of tools.
type ToolSyntax string

// The syntaxes that can be read.
const (
	ToolsTagged   ToolSyntax = "tagged"   // <tool_call>{"name", "arguments"}</tool_call>
	ToolsListed   ToolSyntax = "listed"   // [TOOL_CALLS][{"name", "arguments"}]
	ToolsUnmarked ToolSyntax = "unmarked" // {"name", "parameters"}, the whole answer
)

// TemplateTools finds the syntax in a chat template. It is empty when the template
// knows of no tools or writes calls in a way that is not known here.
func TemplateTools(template string) ToolSyntax {
	switch {
	case !strings.Contains(template, "tools"):
		return ""
	case strings.Contains(template, "<tool_call>"):
		return ToolsTagged
	case strings.Contains(template, "[TOOL_CALLS]") && !strings.Contains(template, "[ARGS]"):
		return ToolsListed
	case strings.Contains(template, `{"name"`) && strings.Contains(template, `"parameters"`):
		return ToolsUnmarked
	default:
		return ""
	}
}
