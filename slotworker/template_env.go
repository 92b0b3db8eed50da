package slotworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controlstructures "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// Names that no template can spell.
const (
	templateRunName   = "run of this template"
	templateCountName = "count the items"
)

// templateEnvironment is what chat templates may use: what Hugging Face gives
// them, and nothing that reads other templates.
func templateEnvironment() *exec.Environment {
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters)
	filters.Update(exec.NewFilterSet(map[string]exec.FilterFunction{
		"tojson":          toJSON,
		templateCountName: countItems,
	}))
	tags := map[string]parser.ControlStructureParser{"generation": parseGeneration}
	for _, name := range []string{"for", "if", "set", "macro", "call", "filter", "with", "do", "break", "continue", "raw"} {
		if parse, ok := controlstructures.All.Get(name); ok {
			tags[name] = bounded(parse)
		}
	}
	return &exec.Environment{
		Context: exec.NewContext(map[string]any{
			"namespace": mustGet("namespace"),
			"dict":      mustGet("dict"),
		}),
		Filters:           filters,
		Tests:             builtins.Tests,
		ControlStructures: exec.NewControlStructureSet(tags),
		Methods:           builtins.Methods,
	}
}

func mustGet(name string) any {
	f, _ := builtins.GlobalFunctions.Get(name)
	return f
}

// boundedTag counts as work each time it is executed.
type boundedTag struct {
	exec.ControlStructure
}

// bounded makes a tag count, and closes the ways in which it could run forever.
func bounded(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		node, err := parse(p, args)
		if err != nil {
			return nil, err
		}
		switch n := node.(type) {
		case *controlstructures.ForControlStructure:
			if n.Recursive {
				return nil, fmt.Errorf("recursive loops are not supported")
			}
			n.ObjectEvaluator = &nodes.FilteredExpression{
				Expression: n.ObjectEvaluator,
				Filters:    []*nodes.FilterCall{{Token: n.ObjectEvaluator.Position(), Name: templateCountName}},
			}
		case *controlstructures.MacroControlStructure:
			return &boundedMacro{n}, nil
		}
		tag, ok := node.(exec.ControlStructure)
		if !ok {
			return node, nil
		}
		return &boundedTag{tag}, nil
	}
}

// Execute implements exec.ControlStructure.
func (t *boundedTag) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	if err := runOf(r.Environment).spend(1); err != nil {
		return err
	}
	return t.ControlStructure.Execute(r, tag)
}

// boundedMacro defines a macro whose calls count and nest only so deep.
type boundedMacro struct {
	*controlstructures.MacroControlStructure
}

// Execute implements exec.ControlStructure.
func (m *boundedMacro) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	if err := m.MacroControlStructure.Execute(r, tag); err != nil {
		return err
	}
	defined, _ := r.Environment.Context.Get(m.Name)
	macro, ok := defined.(exec.Macro)
	if !ok {
		return fmt.Errorf("macro %s was not defined", m.Name)
	}
	run := runOf(r.Environment)
	r.Environment.Context.Set(m.Name, exec.Macro(func(params *exec.VarArgs) *exec.Value {
		if err := run.spend(1); err != nil {
			return exec.AsValue(err)
		}
		if run.depth == maxTemplateDepth {
			return exec.AsValue(fmt.Errorf("macros call each other more than %d deep", maxTemplateDepth))
		}
		run.depth++
		defer func() { run.depth-- }()
		return macro(params)
	}))
	return nil
}

// countItems passes on what a loop goes through, once it is paid for.
func countItems(e *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	if err := runOf(e.Environment).spend(in.Len()); err != nil {
		return exec.AsValue(err)
	}
	return in
}

func runOf(env *exec.Environment) *templateRun {
	v, _ := env.Context.Get(templateRunName)
	run, ok := v.(*templateRun)
	if !ok {
		panic("a chat template runs without bounds")
	}
	return run
}

// generationTag marks an assistant's turn for training; its content is rendered as it is.
type generationTag struct {
	*nodes.Wrapper
}

func parseGeneration(p, _ *parser.Parser) (nodes.ControlStructure, error) {
	wrapper, _, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	return &generationTag{wrapper}, nil
}

// Execute implements exec.ControlStructure.
func (t *generationTag) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(t.Wrapper)
}

// toJSON writes what Python's json.dumps writes with ensure_ascii off.
func toJSON(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	indent := 0
	if v, ok := params.KwArgs["indent"]; ok && v.IsInteger() {
		indent = min(max(v.Integer(), 0), 16)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", strings.Repeat(" ", indent))
	if err := encoder.Encode(in.ToGoSimpleType(false)); err != nil {
		return exec.AsValue(fmt.Errorf("cannot write JSON: %w", err))
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if indent == 0 {
		text = spaceJSON(text)
	}
	return exec.AsSafeValue(text)
}

// spaceJSON puts a space after each comma and colon outside strings.
func spaceJSON(text string) string {
	var b strings.Builder
	quoted := false
	for i := range len(text) {
		c := text[i]
		b.WriteByte(c)
		switch {
		case c == '"' && !escaped(text, i):
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// escaped reports whether the character at i follows an odd number of backslashes.
func escaped(text string, i int) bool {
	n := 0
	for i--; i >= 0 && text[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// strftimeNow is the date in the form of Python's strftime, as far as templates use it.
func strftimeNow(format string) string { return strftime(time.Now(), format) }

func strftime(t time.Time, format string) string {
	layouts := map[byte]string{
		'd': "02", 'm': "01", 'Y': "2006", 'y': "06", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'e': "_2",
		'F': "2006-01-02", 'T': "15:04:05", 'Z': "MST", 'z': "-0700",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if layout, ok := layouts[format[i]]; ok {
			b.WriteString(t.Format(layout))
		} else if format[i] == '%' {
			b.WriteByte('%')
		} else {
			b.WriteString(format[i-1 : i+1])
		}
	}
	return b.String()
}
