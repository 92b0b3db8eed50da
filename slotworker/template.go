package slotworker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"github.com/firstframe/firstframe/shared"
)

// A chat template comes with the model file and may be hostile. The library
// gives it no way to files or other templates; template_source.go puts counters
// into it, so that its work, depth, output and time are bounded here. What is
// left to it is memory: a template can still ask for a string that this process
// cannot hold, and then ends its own worker, nobody else's.
const (
	maxTemplateBytes  = 128 << 10
	maxTemplateNested = 500     // open brackets, so that the parser's stack stays small
	maxTemplateSteps  = 1 << 18 // loop iterations and macro calls
	maxTemplateDepth  = 50      // macros inside macros
	maxTemplateText   = 16 << 20
	maxTemplateTime   = 2 * time.Second
)

// templateTokens are the special tokens that templates write themselves.
type templateTokens struct{ bos, eos string }

// chatTemplate renders chats with a model's own template.
type chatTemplate struct {
	compiled *jinja.Template
	texts    []jinja.Value // what stands between the tags
	tokens   templateTokens
	refuse   error // why chats cannot be rendered; nil when they can
}

// parseTemplate reads a template. One that cannot be used refuses chats when
// they come: plain prompts do not need it.
func parseTemplate(source string, tokens templateTokens) *chatTemplate {
	t := &chatTemplate{tokens: tokens}
	if strings.TrimSpace(source) == "" {
		t.refuse = invalid("messages", "the model has no chat template: send a prompt instead of messages")
		return t
	}
	if err := t.compile(source); err != nil {
		t.refuse = &shared.Error{Kind: shared.KindInvalid, Field: "messages", Message: "the model's chat template cannot be used", Err: err}
	}
	return t
}

func (t *chatTemplate) compile(source string) (err error) {
	defer panicToError(&err)
	if len(source) > maxTemplateBytes {
		return fmt.Errorf("it has %d bytes, more than %d", len(source), maxTemplateBytes)
	}
	if nested(source) > maxTemplateNested {
		return fmt.Errorf("its brackets are nested deeper than %d", maxTemplateNested)
	}
	bounded, texts, err := boundTemplate(source)
	if err != nil {
		return err
	}
	for _, text := range texts {
		t.texts = append(t.texts, jinja.NewString(text))
	}
	t.compiled, err = jinja.Compile(bounded)
	return err
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

// templateInput is what a template renders.
type templateInput struct {
	messages            []shared.Message
	tools               []shared.Tool
	addGenerationPrompt bool
	noThinking          bool
}

// render writes a chat as the model was trained to read it.
func (t *chatTemplate) render(ctx context.Context, in templateInput) (string, error) {
	if t.refuse != nil {
		return "", t.refuse
	}
	ctx, cancel := context.WithTimeout(ctx, maxTemplateTime)
	defer cancel()
	run := &templateRun{ctx: ctx, texts: t.texts}
	text, err := t.execute(run, in)
	switch {
	case err == nil:
		return text, nil
	case run.raised != "":
		return "", invalid("messages", "the model's chat template refuses the messages: %s", run.raised)
	default:
		return "", &shared.Error{Kind: shared.KindInvalid, Field: "messages", Message: "the model's chat template failed", Err: err}
	}
}

func (t *chatTemplate) execute(run *templateRun, in templateInput) (text string, err error) {
	defer panicToError(&err)
	chat := make([]jinja.Value, len(in.messages))
	for i, m := range in.messages {
		if chat[i], err = templateTurn(m); err != nil {
			return "", err
		}
	}
	tools, err := templateTools(in.tools)
	if err != nil {
		return "", err
	}
	if err := run.spend(0); err != nil {
		return "", err
	}
	values := map[string]jinja.Value{
		"messages":              jinja.NewList(chat),
		"add_generation_prompt": jinja.NewBool(in.addGenerationPrompt),
		"bos_token":             jinja.NewString(t.tokens.bos),
		"eos_token":             jinja.NewString(t.tokens.eos),
		"tools":                 tools,
		"documents":             jinja.None(),
		"raise_exception":       jinja.NewCallable("raise_exception", run.raise),
		"range":                 jinja.NewCallable("range", run.numbers),
		countText:               jinja.NewCallable(countText, run.text),
		countValue:              jinja.NewCallable(countValue, run.value),
		countStep:               jinja.NewCallable(countStep, run.step),
		countEnter:              jinja.NewCallable(countEnter, run.enter),
		countLeave:              jinja.NewCallable(countLeave, run.leave),
	}
	if in.noThinking {
		values["enable_thinking"] = jinja.NewBool(false)
	}
	return t.compiled.RenderValues(values)
}

// panicToError keeps what the template library trips over inside the request.
func panicToError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the template cannot be computed: %v", p)
	}
}

// templateRun is one rendering and what it may still do.
type templateRun struct {
	ctx    context.Context
	texts  []jinja.Value
	steps  int
	depth  int
	size   int    // of all text written and all values kept
	raised string // what the template raised as an exception
}

type (
	templateArgs   = []jinja.Value
	templateKwargs = map[string]jinja.Value
)

// spend counts steps and ends a rendering that takes too many or too long.
func (r *templateRun) spend(steps int) error {
	r.steps += steps
	if r.steps > maxTemplateSteps {
		return errors.New("it does not come to an end")
	}
	if r.ctx.Err() != nil {
		return fmt.Errorf("it took too long: %w", r.ctx.Err())
	}
	return nil
}

// keep counts text.
func (r *templateRun) keep(size int) error {
	r.size += size
	if r.size > maxTemplateText {
		return fmt.Errorf("it makes more than %d bytes of text", maxTemplateText)
	}
	return nil
}

// text gives one of the texts between the tags.
func (r *templateRun) text(args templateArgs, _ templateKwargs) (jinja.Value, error) {
	text := r.texts[args[0].AsInt()]
	return text, r.keep(len(text.AsString()))
}

// value passes on what is written or kept in a variable.
func (r *templateRun) value(args templateArgs, _ templateKwargs) (jinja.Value, error) {
	if len(args) != 1 {
		return jinja.Undefined(), fmt.Errorf("%d expressions where one belongs", len(args))
	}
	v, size := args[0], 1
	switch {
	case v.IsString():
		size = len(v.AsString())
	case v.IsList():
		size = v.AsList().Len()
	case v.IsDict():
		size = v.AsDict().Len()
	}
	return v, r.keep(size)
}

func (r *templateRun) step(templateArgs, templateKwargs) (jinja.Value, error) {
	return jinja.None(), r.spend(1)
}

func (r *templateRun) enter(templateArgs, templateKwargs) (jinja.Value, error) {
	r.depth++
	if r.depth > maxTemplateDepth {
		return jinja.None(), fmt.Errorf("its macros call each other more than %d deep", maxTemplateDepth)
	}
	return jinja.None(), r.spend(1)
}

func (r *templateRun) leave(templateArgs, templateKwargs) (jinja.Value, error) {
	r.depth--
	return jinja.None(), nil
}

// raise is raise_exception.
func (r *templateRun) raise(args templateArgs, _ templateKwargs) (jinja.Value, error) {
	r.raised = "no reason given"
	if len(args) > 0 && args[0].IsString() {
		r.raised = args[0].AsString()
	}
	return jinja.None(), errors.New(r.raised)
}

// numbers is range, with each number counted.
func (r *templateRun) numbers(args templateArgs, _ templateKwargs) (jinja.Value, error) {
	bounds := [3]int64{0, 0, 1}
	if len(args) < 1 || len(args) > 3 {
		return jinja.None(), fmt.Errorf("range takes one to three numbers, not %d", len(args))
	}
	for i, a := range args {
		if !a.IsInt() {
			return jinja.None(), fmt.Errorf("range takes whole numbers, not %s", a)
		}
		bounds[i] = a.AsInt()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	from, to, by := bounds[0], bounds[1], bounds[2]
	if by == 0 {
		return jinja.None(), errors.New("range cannot have the step 0")
	}
	var items []jinja.Value
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		if err := r.spend(1); err != nil {
			return jinja.None(), err
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}
