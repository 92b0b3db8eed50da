package slotworker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/firstframe/firstframe/shared"
)

var chat = []shared.Message{
	{Role: "system", Content: "Be brief."},
	{Role: "user", Content: "  Name a <colour> & say \"why\".  "},
	{Role: "assistant", Content: "Blue."},
	{Role: "user", Content: "Another?"},
}

func rendered(t *testing.T, source string, messages []shared.Message, add bool) (string, error) {
	t.Helper()
	tmpl := parseTemplate(source, templateTokens{bos: "<s>", eos: "</s>"})
	return tmpl.render(t.Context(), templateInput{messages: messages, addGenerationPrompt: add})
}

// Templates in the manner of well-known models, in our own words.
const (
	markedTurns = `{% for turn in messages %}
{{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] | trim + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %}`

	headerTurns = `{%- set offset = 0 -%}
{%- if messages[0].role == 'system' -%}
    {%- set system_text = messages[0]['content'] | trim -%}
    {%- set offset = 1 -%}
{%- else -%}
    {%- set system_text = '' -%}
{%- endif -%}
{{- bos_token + '<|start_header_id|>system<|end_header_id|>\n\n' -}}
{{- 'Date: ' + strftime_now('%Y') + '\n\n' + system_text + '<|eot_id|>' -}}
{%- for turn in messages[offset:] -%}
    {{- '<|start_header_id|>' ~ turn.role ~ '<|end_header_id|>\n\n' ~ turn.content | trim ~ '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%}`

	modelTurns = `{{ bos_token }}{%- set ns = namespace(lead='') -%}
{%- for turn in messages -%}
  {%- if turn.role == 'system' -%}
    {%- set ns.lead = turn.content + '\n\n' -%}
  {%- else -%}
    {%- set who = 'model' if turn.role == 'assistant' else turn.role -%}
    {{ '<start_of_turn>' ~ who ~ '\n' ~ ns.lead ~ (turn.content | trim) ~ '<end_of_turn>\n' }}
    {%- set ns.lead = '' -%}
  {%- endif -%}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}`

	alternating = `{%- if messages[0]['role'] == 'system' -%}
{%- set first = messages[0]['content'] -%}{%- set rest = messages[1:] -%}
{%- else -%}{%- set rest = messages -%}{%- endif -%}
{{- bos_token -}}
{%- for turn in rest -%}
{%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('roles have to alternate user and assistant') -}}
{%- endif -%}
{%- if turn['role'] == 'user' -%}
{{- '[INST] ' + (first + '\n\n' if loop.first and first is defined else '') + turn['content'].strip() + ' [/INST]' -}}
{%- else -%}{{- ' ' + turn['content'] + eos_token -}}{%- endif -%}
{%- endfor -%}`
)

func TestTemplates(t *testing.T) {
	year := time.Now().Format("2006")
	tests := []struct {
		name, source, want string
	}{
		{"marked turns", markedTurns, "<|im_start|>system\nBe brief.<|im_end|>\n" +
			"<|im_start|>user\nName a <colour> & say \"why\".<|im_end|>\n" +
			"<|im_start|>assistant\nBlue.<|im_end|>\n<|im_start|>user\nAnother?<|im_end|>\n<|im_start|>assistant\n"},
		{"header turns", headerTurns, "<s><|start_header_id|>system<|end_header_id|>\n\nDate: " + year + "\n\nBe brief.<|eot_id|>" +
			"<|start_header_id|>user<|end_header_id|>\n\nName a <colour> & say \"why\".<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\nBlue.<|eot_id|>" +
			"<|start_header_id|>user<|end_header_id|>\n\nAnother?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
		{"model turns", modelTurns, "<s><start_of_turn>user\nBe brief.\n\nName a <colour> & say \"why\".<end_of_turn>\n" +
			"<start_of_turn>model\nBlue.<end_of_turn>\n<start_of_turn>user\nAnother?<end_of_turn>\n<start_of_turn>model\n"},
		{"alternating turns", alternating, "<s>[INST] Be brief.\n\nName a <colour> & say \"why\". [/INST] Blue.</s>[INST] Another? [/INST]"},
		{"JSON", `{{ messages[2:] | tojson }}`, `[{"role": "assistant", "content": "Blue."}, {"role": "user", "content": "Another?"}]`},
		{"JSON keeps what HTML would escape", `{{ messages[1].content | trim | tojson }}`, `"Name a <colour> & say \"why\"."`},
		{"JSON with an indent", `{{ {'a': [1, 'b:c,d']} | tojson(indent=2) }}`, "{\n  \"a\": [\n    1,\n    \"b:c,d\"\n  ]\n}"},
		{"JSON without", `{{ {'a': [1, 'b:c,d\\']} | tojson }}`, `{"a": [1, "b:c,d\\"]}`},
		{"blocks leave no lines", "a\n  {% if true %}\nb\n  {% endif %}\n{# note #}\nc\n", "a\nb\nc"},
		{"loop controls", `{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }} {% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}`, "user assistant "},
		{"range", `{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(9, 3, -3) %}{{ i }}{% endfor %}{{ range(2, 4) | length }}`, "012962"},
		{"macro", `{% macro turn(m, sep=':') %}{{ m.role }}{{ sep }}{% endmacro %}{% for m in messages[:2] %}{{ turn(m) }}{% endfor %}{{ turn(messages[0], sep='!') }}`, "system:user:system!"},
		{"generation marks", `{% generation %}x{% endgeneration %}y`, "xy"},
		{"what is not there", `{{ tools is none }} {{ messages[0].tool_calls is defined }} {{ 'tool_calls' in messages[0] }} {{ nothing is defined }}`, "True False False False"},
		{"text after a mark", `{{ 'a</think>\nb'.split('</think>')[-1].lstrip('\n') }}`, "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rendered(t, tt.source, chat, true)
			if err != nil || got != tt.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

func TestTemplateWhitespace(t *testing.T) {
	tests := map[string]string{
		"a {{ 1 }}{%- if true %} b{% endif %}":                       "a 1 b",
		"a\n{{ 1 }}{{- 2 }}\n{{ 3 -}}\n\n b":                         "a\n12\n3b",
		"{% if true -%}{{ 1 }} b{% endif %}":                         "1 b",
		"  {% if true %}\n  x\n  {% endif %}\n  y":                   "  x\n  y",
		"x  {% if true %}y{% endif %}":                               "x  y",
		"{% if true %}\n  {% if true %}\n z{% endif %}\n{% endif %}": " z",
		"\t{%+ if true %}a{% endif +%}\nb":                           "\ta\nb",
		"a\n  {# {{ 'note\" #}\nb\n\n":                               "a\nb\n",
		"a\r\n{% if true %}\r\nb\r\n{% endif %}":                     "a\nb\n",
		"{% raw %}{{ x }} {% if %}{% endraw %}!":                     "{{ x }} {% if %}!",
		"{{ '{% endfor %}' }}{{ \"}}\" }}":                           "{% endfor %}}}",
		"{ {a} {{ '{' }}":                                            "{ {a} {",
	}
	for source, want := range tests {
		if got, err := rendered(t, source, chat, true); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", source, got, err, want)
		}
	}
}

func TestTemplateWithoutGenerationPrompt(t *testing.T) {
	got, err := rendered(t, markedTurns, chat[:1], false)
	if want := "<|im_start|>system\nBe brief.<|im_end|>\n"; err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTemplateRefusesMessages(t *testing.T) {
	_, err := rendered(t, alternating, []shared.Message{{Role: "user", Content: "a"}, {Role: "user", Content: "b"}}, true)
	if shared.KindOf(err) != shared.KindInvalid || !strings.HasSuffix(err.Error(), "refuses the messages: roles have to alternate user and assistant") {
		t.Errorf("got %v", err)
	}
}

// TestHostileTemplates: each ends soon, with an error, and the process lives.
func TestHostileTemplates(t *testing.T) {
	tests := map[string]string{
		"none":                "",
		"no end of a block":   "{% for m in messages %}",
		"no end of an output": "{{ messages",
		"unknown tag":         "{% nonsense %}",
		"unknown filter":      "{{ 1 | nonsense }}",
		"include":             "{% include '/etc/passwd' %}",
		"import":              "{% import '/etc/passwd' as x %}",
		"from":                "{% from '/etc/passwd' import x %}",
		"extends":             "{% extends '/etc/passwd' %}",
		"itself":              "{% include '/chat_template' %}",
		"endless range":       "{% for i in range(10 ** 15) %}{% endfor %}",
		"range as a number":   "{{ range(999999999) | length }}",
		"loops in loops":      strings.Repeat("{% for i in range(1000) %}", 5) + "x" + strings.Repeat("{% endfor %}", 5),
		"a macro in itself":   "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"macros that double":  "{% macro a(n) %}{% if n > 0 %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(40) }}",
		"a loop in itself":    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"too much text":       "{% for i in range(40) %}{{ 'x' * 1000000 }}{% endfor %}",
		"too many brackets":   "{{ " + strings.Repeat("(", 10000) + "1" + strings.Repeat(")", 10000) + " }}",
		"too long":            strings.Repeat("x", maxTemplateBytes+1),
		"a counter replaced":  "{% set firstframe_count_step = range %}",
		"text that doubles":   "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"a list that doubles": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := rendered(t, source, chat, true)
			if shared.KindOf(err) != shared.KindInvalid {
				t.Errorf("got %.100q, %v", got, err)
			}
			if err != nil && name == "a macro in itself" && !strings.Contains(err.Error(), "deep") {
				t.Errorf("the macros nested until %v", err)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestTemplateEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tmpl := parseTemplate(markedTurns, templateTokens{})
	if _, err := tmpl.render(ctx, templateInput{messages: chat, addGenerationPrompt: true}); err == nil {
		t.Error("rendered for a caller that has left")
	}
}

func TestTemplateServesManyAtOnce(t *testing.T) {
	tmpl := parseTemplate(modelTurns, templateTokens{bos: "<s>"})
	want, err := tmpl.render(t.Context(), templateInput{messages: chat, addGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan string, 8)
	for range cap(results) {
		go func() {
			got, _ := tmpl.render(t.Context(), templateInput{messages: chat, addGenerationPrompt: true})
			results <- got
		}()
	}
	for range cap(results) {
		if got := wait(t, results); got != want {
			t.Errorf("got %q", got)
		}
	}
}

// FuzzTemplate: whatever a model file brings, rendering ends and does not panic.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"{{ 1 // 0 }}{{ 'x' * -1 }}", markedTurns, headerTurns, modelTurns, alternating, "{{ 1 % 0 }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl := parseTemplate(source, templateTokens{bos: "<s>", eos: "</s>"})
		_, _ = tmpl.render(t.Context(), templateInput{messages: chat, addGenerationPrompt: true})
	})
}

func TestChatTokensBeginOnce(t *testing.T) {
	s := newSlot(t)
	defer s.end()
	s.prepare()
	var r *resident
	if err := s.owner.ask(func(st *slotState) { r = st.resident }); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"template writes it": "{{ bos_token }}x", "tokenizer adds it": "x"} {
		r.template = parseTemplate(source, templateTokens{bos: "\x01"})
		// The fake tokenizer knows no special tokens in text: it takes byte 1 for the first.
		s.engine.model.bos = 1
		tokens, err := r.tokens(t.Context(), shared.GenerateRequest{Messages: chat})
		if err != nil || len(tokens) != 2 || tokens[0] != 1 || tokens[1] != 'x' {
			t.Errorf("%s: got %v, %v", name, tokens, err)
		}
	}
	text, err := s.ApplyTemplate(t.Context(), shared.ApplyTemplateRequest{Identity: s.expected, Messages: chat[3:], AddGenerationPrompt: true})
	if err != nil || text == "" {
		t.Errorf("got %q, %v", text, err)
	}
}
