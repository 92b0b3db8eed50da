package slotworker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"

	"github.com/firstframe/firstframe/shared"
)

// A chat template comes with the model file and may be hostile. It gets no way
// to files or other templates, and its work, depth, output and time are
// bounded. What is left to it is memory: a template can still build a string
// that this process cannot hold, and then ends its own worker, nobody else's.
const (
	maxTemplateBytes  = 128 << 10
	maxTemplateNested = 500     // open brackets, so that the parser's stack stays small
	maxTemplateWork   = 1 << 20 // loop items, macro calls and tags
	maxTemplateDepth  = 50      // macros inside macros
	maxTemplateOutput = 16 << 20
	maxTemplateTime   = 2 * time.Second
)

// templateTokens are the special tokens that templates write themselves.
type templateTokens struct{ bos, eos string }

// chatTemplate renders chats with a model's own template.
type chatTemplate struct {
	parsed *exec.Template
	tokens templateTokens
	refuse error // why chats cannot be rendered; nil when they can
}

// parseTemplate reads a template with the settings that Hugging Face uses. One
// that cannot be used refuses chats when they come: plain prompts do not need it.
func parseTemplate(source string, tokens templateTokens) *chatTemplate {
	t := &chatTemplate{tokens: tokens}
	if strings.TrimSpace(source) == "" {
		t.refuse = &shared.Error{Kind: shared.KindInvalid, Field: "messages", Message: "the model has no chat template: send a prompt instead of messages"}
		return t
	}
	parsed, err := compileTemplate(source)
	if err != nil {
		t.refuse = &shared.Error{Kind: shared.KindInvalid, Field: "messages", Message: "the model's chat template cannot be used", Err: err}
		return t
	}
	t.parsed = parsed
	return t
}

func compileTemplate(source string) (parsed *exec.Template, err error) {
	defer panicToError(&err)
	if len(source) > maxTemplateBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(source), maxTemplateBytes)
	}
	if nested(source) > maxTemplateNested {
		return nil, fmt.Errorf("its brackets are nested deeper than %d", maxTemplateNested)
	}
	settings := config.New()
	settings.TrimBlocks = true
	settings.LeftStripBlocks = true
	const name = "/chat_template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: source})
	if err != nil {
		return nil, err
	}
	parsed, err = exec.NewTemplate(name, settings, loader, templateEnvironment())
	if err != nil {
		// The library repeats the whole template in its error.
		return nil, errors.New(strings.ReplaceAll(err.Error(), source, "…"))
	}
	return parsed, nil
}

// nested is how deep brackets are open at most. Brackets in texts count too, which is harmless.
func nested(source string) int {
	depth, deepest := 0, 0
	for i := range len(source) {
		switch source[i] {
		case '(', '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return deepest
}

// render writes a chat as the model was trained to read it.
func (t *chatTemplate) render(ctx context.Context, messages []shared.Message, addGenerationPrompt bool) (string, error) {
	if t.refuse != nil {
		return "", t.refuse
	}
	ctx, cancel := context.WithTimeout(ctx, maxTemplateTime)
	defer cancel()
	run := &templateRun{ctx: ctx}
	err := t.execute(run, messages, addGenerationPrompt)
	switch {
	case err == nil:
		return run.out.String(), nil
	case run.raised != "":
		return "", invalid("messages", "the model's chat template refuses the messages: %s", run.raised)
	default:
		return "", &shared.Error{Kind: shared.KindInvalid, Field: "messages", Message: "the model's chat template failed", Err: err}
	}
}

func (t *chatTemplate) execute(run *templateRun, messages []shared.Message, addGenerationPrompt bool) (err error) {
	defer panicToError(&err)
	chat := make([]any, len(messages))
	for i, m := range messages {
		chat[i] = map[string]any{"role": m.Role, "content": m.Content}
	}
	return t.parsed.Execute(run, exec.NewContext(map[string]any{
		templateRunName:         run,
		"messages":              chat,
		"add_generation_prompt": addGenerationPrompt,
		"bos_token":             t.tokens.bos,
		"eos_token":             t.tokens.eos,
		"tools":                 nil,
		"documents":             nil,
		"raise_exception":       run.raise,
		"range":                 run.list,
		"strftime_now":          strftimeNow,
	}))
}

// panicToError keeps what the template library trips over inside the request.
func panicToError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the template cannot be computed: %v", p)
	}
}

// templateRun is one rendering: its output and what it may still do.
type templateRun struct {
	ctx    context.Context
	out    bytes.Buffer
	work   int
	depth  int
	raised string // what the template raised as an exception
}

// Write takes the output up to its bound.
func (r *templateRun) Write(b []byte) (int, error) {
	if r.out.Len()+len(b) > maxTemplateOutput {
		return 0, fmt.Errorf("the output is longer than %d bytes", maxTemplateOutput)
	}
	return r.out.Write(b)
}

// spend counts work and ends a rendering that does too much of it.
func (r *templateRun) spend(n int) error {
	r.work += n
	if r.work > maxTemplateWork {
		return errors.New("the template does not come to an end")
	}
	if r.ctx.Err() != nil {
		return fmt.Errorf("the template took too long: %w", r.ctx.Err())
	}
	return nil
}

// raise is raise_exception.
func (r *templateRun) raise(message string) (string, error) {
	r.raised = message
	return "", errors.New(message)
}

// list is range. The library's own never ends its goroutine when a loop is left early.
func (r *templateRun) list(params *exec.VarArgs) (any, error) {
	bounds := [3]int{0, 0, 1}
	switch n := len(params.Args); n {
	case 1:
		bounds[1] = params.Args[0].Integer()
	case 2, 3:
		for i, a := range params.Args {
			bounds[i] = a.Integer()
		}
	default:
		return nil, fmt.Errorf("range takes one to three numbers, not %d", n)
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return nil, errors.New("range cannot have the step 0")
	}
	items := []any{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if err := r.spend(1); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, nil
}
