package slotworker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gbnf"
)

// Templates in the manner of three families, as far as tools go.
const (
	taggedTools = `{% if tools %}{{ '<|system|>' }}{% for t in tools %}{{ t | tojson }}{% endfor %}{{ 'answer <tool_call>{"name", "arguments"}</tool_call>' }}{% endif %}` +
		`{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ '<tool_call>' }}` +
		`{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}{{ '</tool_call>' }}{% endfor %}{% endif %}` +
		`{% if m.tool_call_id %}{{ '#' + m.tool_call_id }}{% endif %}{% endfor %}{{ '<|assistant|>' }}`
	listedTools = `{{ tools }}{{ '[TOOL_CALLS][' }}`
	plainTools  = `{{ tools }}{{ 'respond as {"name": function name, "parameters": dictionary}' }}`
)

func twoTools() []shared.Tool {
	return []shared.Tool{
		{Name: "weather", Description: "tells the weather", Parameters: `{"type":"object","properties":{"city":{"type":"string","maxLength":8},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city"]}`},
		{Name: "now"},
	}
}

func TestToolFormatsAreFoundInTemplates(t *testing.T) {
	for template, want := range map[string]string{
		taggedTools: "<tool_call>", listedTools: "[TOOL_CALLS]", plainTools: "", markedTurns: "none",
		`{{ tools }}[TOOL_CALLS]name[ARGS]`: "none", `{{ tools }}`: "none",
	} {
		got := "none"
		if f := detectTools(template); f != nil {
			got = f.marker
		}
		if got != want {
			t.Errorf("%.40s is of the format %q, want %q", template, got, want)
		}
	}
}

// answers are texts of each format with what they say.
var answers = []struct {
	template, text, shown string
	calls                 []shared.ToolCall
}{
	{taggedTools, "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a}\\\"{\", \"days\": 3}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
		"Let me see.\n", []shared.ToolCall{{Name: "weather", Arguments: `{"city": "a}\"{", "days": 3}`}, {Index: 1, Name: "now", Arguments: "{}"}}},
	{taggedTools, "a <tool <tool_calls> b", "a <tool <tool_calls> b", nil},
	{taggedTools, `<tool_call>{"name":"now","arguments":{ }}</tool_call>`, "", []shared.ToolCall{{Name: "now", Arguments: "{ }"}}},
	{listedTools, `[TOOL_CALLS][{"name": "weather", "arguments": {"city": "x"}, "id": "abc123XYZ"}, {"name": "now", "arguments": {}}]`, "",
		[]shared.ToolCall{{Name: "weather", Arguments: `{"city": "x"}`}, {Index: 1, Name: "now", Arguments: "{}"}}},
	{plainTools, `{"name": "weather", "parameters": {"city": "x"}}`, "", []shared.ToolCall{{Name: "weather", Arguments: `{"city": "x"}`}}},
	{plainTools, ` {"no": 1} {"name": "weather"}`, ` {"no": 1} {"name": "weather"}`, nil},
	{plainTools, ` {`, ` {`, nil},
}

func TestToolParserReadsEveryCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, a := range answers {
		for range 200 {
			p := &answerParser{calls: newToolParser(detectTools(a.template))}
			var shown strings.Builder
			var calls []shared.ToolCall
			phases := 0
			take := func(c shared.Chunk) {
				shown.WriteString(c.Text)
				if c.Phases != nil {
					phases++
					if !c.HasContent() {
						t.Error("phases without content")
					}
				}
				for _, piece := range c.ToolCalls {
					if piece.ID != "" {
						calls = append(calls, shared.ToolCall{Index: piece.Index, Name: piece.Name})
					}
					calls[piece.Index].Arguments += piece.Arguments
				}
			}
			first := &shared.Phases{Prefill: 1}
			for rest := a.text; rest != ""; {
				n := 1 + rnd.IntN(min(len(rest), 12))
				take(p.chunk(shared.Chunk{Text: rest[:n], Phases: first}))
				rest, first = rest[n:], nil
			}
			take(p.end())
			if diff := cmp.Diff(a.calls, calls, cmpopts.EquateEmpty()); diff != "" || shown.String() != a.shown || phases != 1 {
				t.Fatalf("%q shows %q with %d phases; calls:\n%s", a.text, shown.String(), phases, diff)
			}
		}
	}
}

func TestToolGrammarIsTheFormat(t *testing.T) {
	for _, a := range answers {
		if a.calls == nil {
			continue
		}
		f := detectTools(a.template)
		whole, behind, err := f.grammar(shared.GenerateRequest{Tools: twoTools()})
		if err != nil {
			t.Fatal(err)
		}
		at, end, found := f.trigger(a.text)
		if !found {
			t.Fatalf("no call is found in %q", a.text)
		}
		for grammar, text := range map[string]string{whole: a.text[at:], behind: a.text[end:]} {
			if !matchesGrammar(t, grammar, text) {
				t.Errorf("the grammar refuses %q", text)
			}
			for _, wrong := range []string{strings.Replace(text, `"arguments"`, `"args"`, 1), strings.Replace(text, "weather", "whether", 1), strings.Replace(text, `"city"`, `"town"`, 1)} {
				if wrong != text && matchesGrammar(t, grammar, wrong) {
					t.Errorf("the grammar accepts %q", wrong)
				}
			}
		}
		one, _, err := f.grammar(shared.GenerateRequest{Tools: twoTools(), OneToolCall: true, OnlyTool: "now"})
		if err != nil || matchesGrammar(t, one, a.text[at:]) != (len(a.calls) == 1 && a.calls[0].Name == "now") {
			t.Errorf("one call of now only: %q, %v", a.text, err)
		}
	}
	bad := []shared.Tool{{Name: "f", Parameters: `{"type":"array","uniqueItems":true}`}}
	if _, _, err := detectTools(taggedTools).grammar(shared.GenerateRequest{Tools: bad}); !strings.Contains(fmt.Sprint(err), "uniqueItems") {
		t.Errorf("a schema that cannot be honoured: %v", err)
	}
}

func matchesGrammar(t *testing.T, grammar, text string) bool {
	t.Helper()
	g, err := gbnf.Parse(grammar)
	if err != nil {
		t.Fatalf("%v in\n%s", err, grammar)
	}
	m, err := g.NewMatcher()
	if err != nil {
		t.Fatal(err)
	}
	return m.Advance([]byte(text)) == nil && m.Complete()
}

// says runs a chat on a model that would answer with a text.
func says(t *testing.T, template, text string, req shared.GenerateRequest) (shown string, calls []shared.ToolCall, finish string, err error) {
	t.Helper()
	model := &fakeModel{}
	b := newBench(t, model, 1, 2048, 64, 1)
	defer b.end(t)
	b.template = parseTemplate(template, templateTokens{})
	b.tools = detectTools(template)
	req.Messages = []shared.Message{{Role: "user", Content: "hi"}}
	prompt, err := b.tokens(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	model.answer = func(all []int32) int32 {
		if n := len(all) - len(prompt); n >= 0 && n < len(text) {
			return int32(text[n])
		}
		return fakeEOS
	}
	res, err := b.generate(t.Context(), req, time.Now(), func(c shared.Chunk) error {
		shown += c.Text
		for _, piece := range c.ToolCalls {
			if piece.ID != "" {
				calls = append(calls, shared.ToolCall{Index: piece.Index, Name: piece.Name})
			}
			calls[piece.Index].Arguments += piece.Arguments
		}
		return nil
	})
	return shown, calls, res.FinishReason, err
}

func TestToolCallsOfAModel(t *testing.T) {
	for _, a := range answers {
		shown, calls, finish, err := says(t, a.template, a.text, shared.GenerateRequest{Tools: twoTools()})
		want := shared.FinishTools
		if a.calls == nil {
			want = shared.FinishStop
		}
		if diff := cmp.Diff(a.calls, calls, cmpopts.EquateEmpty()); diff != "" || shown != a.shown || finish != want || err != nil {
			t.Errorf("%q shows %q, ends with %s, %v; calls:\n%s", a.text, shown, finish, err, diff)
		}
	}
	// What it gets wrong is put right from where the call begins.
	shown, calls, finish, err := says(t, taggedTools, `So: <tool_call>{"name": "weather", "arguments": "Paris"}`,
		shared.GenerateRequest{Tools: twoTools(), OneToolCall: true, MaxTokens: 400})
	if err != nil || shown != "So: " || len(calls) != 1 || calls[0].Name != "weather" || finish != shared.FinishTools || !json.Valid([]byte(calls[0].Arguments)) {
		t.Errorf("%q, %+v, %s, %v", shown, calls, finish, err)
	}
	// It has to call although it would not.
	shown, calls, finish, err = says(t, taggedTools, "I would rather not.",
		shared.GenerateRequest{Tools: twoTools(), OneToolCall: true, ToolChoice: shared.ToolRequired, OnlyTool: "now"})
	if err != nil || shown != "" || len(calls) != 1 || calls[0].Name != "now" || finish != shared.FinishTools {
		t.Errorf("%q, %+v, %s, %v", shown, calls, finish, err)
	}
	if _, _, _, err := says(t, markedTurns, "x", shared.GenerateRequest{Tools: twoTools()}); shared.KindOf(err) != shared.KindUnsupported {
		t.Errorf("a template without tools: %v", err)
	}
	if _, _, _, err := says(t, taggedTools, "x", shared.GenerateRequest{Tools: twoTools(), Grammar: `root ::= "x"`}); shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("with a grammar: %v", err)
	}
}

func TestTemplatesReadTools(t *testing.T) {
	tmpl := parseTemplate(taggedTools, templateTokens{})
	text, err := tmpl.render(t.Context(), templateInput{
		tools: twoTools()[1:],
		messages: []shared.Message{
			{Role: "user", Content: "hi"},
			{Role: "assistant", ToolCalls: []shared.ToolCall{{ID: "call1", Name: "weather", Arguments: `{"b":[1,2.5,null,true],"a":"x"}`}}},
			{Role: "tool", Content: "sunny", ToolCallID: "call1"},
		},
	})
	want := `<|system|>{"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}` +
		`answer <tool_call>{"name", "arguments"}</tool_call><|user|>hi<|assistant|>` +
		`<tool_call>{"name": "weather", "arguments": {"b": [1, 2.5, null, true], "a": "x"}}</tool_call><|tool|>sunny#call1<|assistant|>`
	if err != nil || text != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, text))
	}
	_, err = tmpl.render(t.Context(), templateInput{messages: []shared.Message{{Role: "assistant", ToolCalls: []shared.ToolCall{{Name: "f", Arguments: `{"a":`}}}}})
	if shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("arguments that are no JSON: %v", err)
	}
}

func FuzzToolParser(f *testing.F) {
	for i, a := range answers {
		f.Add(uint8(i), a.text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string, cut uint8) {
		p := &answerParser{calls: newToolParser(detectTools([]string{taggedTools, listedTools, plainTools}[kind%3]))}
		step := int(cut)%16 + 1
		calls := 0
		for rest := text; rest != ""; {
			n := min(step, len(rest))
			for _, c := range p.chunk(shared.Chunk{Text: rest[:n]}).ToolCalls {
				if c.ID != "" {
					calls++
				}
				if c.Index != calls-1 {
					t.Fatalf("a piece of call %d while %d were begun", c.Index, calls)
				}
			}
			rest = rest[n:]
		}
		p.end()
	})
}
