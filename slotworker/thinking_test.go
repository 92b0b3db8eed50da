package slotworker

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/firstframe/firstframe/shared"
)

// thinkingTools is in the manner of models that think, and call tools afterwards.
const thinkingTools = `{% for m in messages %}{{ '<|' + m.role + '|>' + (('<think>' + m.reasoning_content + '</think>') if m.reasoning_content else '') + m.content }}{% endfor %}` +
	`{% if tools %}{{ '<tool_call>' }}{% endif %}{{ '<|assistant|>' }}`

// opens is the same where the prompt has the opening mark.
const opens = thinkingTools + `{{ '<think>\n' }}`

var thoughts = []struct {
	text          string
	opened        bool
	thought, said string
}{
	{text: "Hello.", said: "Hello."},
	{text: "<think>\nA fox?\n\n</think>\n\nA fox.", thought: "A fox?", said: "A fox."},
	{text: " \n<think>a</think>b <think>c</think>", thought: "a", said: "b <think>c</think>"},
	{text: "a\n\n b </thin </think> c", opened: true, thought: "a\n\n b </thin", said: "c"},
	{text: "<think></think>", thought: "", said: ""},
	{text: "<think>cut off </thi", thought: "cut off </thi"},
	{text: "never closed\n", opened: true, thought: "never closed"},
	{text: "<thin", said: "<thin"},
	{text: "  \n", said: "  \n"},
	{text: "  <b>é</b>", said: "  <b>é</b>"},
	{text: "<think>é\n</think>\n\n", thought: "é"},
}

// split cuts a text where next says and puts together what comes out.
func split(opened bool, text string, next func(rest int) int) (thought, said string) {
	s := newThinkSplitter(shared.TemplateThinking(thinkingTools), opened)
	for text != "" {
		n := next(len(text))
		t, c := s.push(text[:n])
		thought, said, text = thought+t, said+c, text[n:]
	}
	t, c := s.end()
	return thought + t, said + c
}

func TestThinkSplitterReadsEveryCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, want := range thoughts {
		for i := range 100 {
			thought, said := split(want.opened, want.text, func(rest int) int {
				if i == 0 {
					return 1
				}
				return 1 + rnd.IntN(rest)
			})
			if thought != want.thought || said != want.said {
				t.Fatalf("%q is thought %q and said %q", want.text, thought, said)
			}
		}
	}
}

func FuzzThinkSplitter(f *testing.F) {
	for i, seed := range thoughts {
		f.Add(seed.text, seed.opened, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, opened bool, cuts uint64) {
		rnd := rand.New(rand.NewPCG(cuts, 1))
		thought, said := split(opened, text, func(rest int) int { return rest })
		cutThought, cutSaid := split(opened, text, func(rest int) int { return 1 + rnd.IntN(min(rest, 9)) })
		if thought != cutThought || said != cutSaid {
			t.Fatalf("%q is thought %q and said %q; cut it is %q and %q", text, thought, said, cutThought, cutSaid)
		}
		// Nothing but marks and blanks is lost.
		letters := func(s string) string {
			return strings.NewReplacer("<think>", "", "</think>", "", " ", "", "\t", "", "\r", "", "\n", "").Replace(s)
		}
		if !strings.Contains(text, "think") && letters(thought+said) != letters(text) {
			t.Fatalf("%q became %q and %q", text, thought, said)
		}
		if strings.Contains(thought, "</think>") || strings.Trim(thought, blanks) != thought {
			t.Fatalf("thought %q", thought)
		}
	})
}

// heard is what a request's chunks make together.
type heard struct {
	thought, said string
	calls         []string
	result        shared.Result
}

// hear runs a chat on a model that would answer with a text.
func hear(t *testing.T, template, text string, req shared.GenerateRequest) heard {
	t.Helper()
	model := &fakeModel{}
	b := newBench(t, model, 1, 2048, 64, 1)
	defer b.end(t)
	b.template, b.tools, b.thinking = parseTemplate(template, templateTokens{}), detectTools(template), shared.TemplateThinking(template)
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
	var a heard
	first := true
	a.result, err = b.generate(t.Context(), req, time.Now(), func(c shared.Chunk) error {
		a.thought, a.said = a.thought+c.Reasoning, a.said+c.Text
		for _, call := range c.ToolCalls {
			if call.ID != "" {
				a.calls = append(a.calls, call.Name)
			}
		}
		if c.HasContent() != (c.Phases != nil && c.Usage != nil && c.Usage.PromptTokens == len(prompt)) && first {
			t.Errorf("the first chunk with content is %+v", c)
		}
		first = first && !c.HasContent()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestThoughtsOfAModel(t *testing.T) {
	const call = `<tool_call>{"name": "now", "arguments": {}}</tool_call>`
	tools := twoTools()
	for _, test := range []struct {
		name, template, text string
		req                  shared.GenerateRequest
		want                 heard
		thoughtTokens        int
	}{
		{"thinks", thinkingTools, "<think>\nhm</think>\n\nYes.", shared.GenerateRequest{}, heard{thought: "hm", said: "Yes."}, len("\nhm</think>") + 1},
		{"the prompt opens", opens, "hm</think>Yes.", shared.GenerateRequest{}, heard{thought: "hm", said: "Yes."}, len("hm</think>")},
		{"does not", thinkingTools, "Yes.", shared.GenerateRequest{}, heard{said: "Yes."}, 0},
		{"cannot", taggedTools, "<think>hm</think>", shared.GenerateRequest{}, heard{said: "<think>hm</think>"}, 0},
		{"before a call", thinkingTools, "<think>hm " + call + "</think>" + call, shared.GenerateRequest{Tools: tools, OneToolCall: true},
			heard{thought: "hm " + call, calls: []string{"now"}}, len("hm "+call+"</think>") + 1},
		{"a wrong call in a thought", opens, `<tool_call> is how. </think>No.`, shared.GenerateRequest{Tools: tools},
			heard{thought: "<tool_call> is how.", said: "No."}, len("<tool_call> is how. </think>")},
		{"follows a grammar", opens, "hm", shared.GenerateRequest{Grammar: `root ::= "hm"`}, heard{said: "hm"}, 0},
		{"is cut off", thinkingTools, "<think>hm hm", shared.GenerateRequest{MaxTokens: 10}, heard{thought: "hm"}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := hear(t, test.template, test.text, test.req)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(heard{}), cmpopts.IgnoreFields(heard{}, "result"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if n := got.result.Usage.ReasoningTokens; n != test.thoughtTokens {
				t.Errorf("%d tokens are thought, want %d", n, test.thoughtTokens)
			}
		})
	}
	if got := hear(t, markedTurns, "ab STOP c", shared.GenerateRequest{Stop: []string{"x", "STOP"}}); got.result.StopString != "STOP" || got.said != "ab " {
		t.Errorf("stopped by %q: %q", got.result.StopString, got.said)
	}
}

func TestTemplatesReadThoughts(t *testing.T) {
	text, err := parseTemplate(thinkingTools, templateTokens{}).render(t.Context(), templateInput{messages: []shared.Message{
		{Role: "assistant", Reasoning: "hm", Content: "Yes."}, {Role: "user", Content: "No."},
	}})
	if want := "<|assistant|><think>hm</think>Yes.<|user|>No.<|assistant|>"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	template := parseTemplate(`{{ enable_thinking is defined and enable_thinking is false }}`, templateTokens{})
	for off, want := range map[bool]string{true: "True", false: "False"} {
		if text, err := template.render(t.Context(), templateInput{noThinking: off}); err != nil || text != want {
			t.Errorf("thinking off is %v: %q, %v", off, text, err)
		}
	}
}
