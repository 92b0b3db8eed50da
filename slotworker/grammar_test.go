package slotworker

import (
	"strings"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestGrammarDecidesAgainstTheModel(t *testing.T) {
	b := newBench(t, spell('x', '7', 'y'), 1, 64, 16, 1) // and then it would end the text
	defer b.end(t)
	for grammar, want := range map[string]string{
		`root ::= [0-9]{3}`:       "070",   // x and y do not fit, and the end comes by itself
		`root ::= [a-z]`:          "x",     // fits anyway
		`root ::= "x7y" "z"{2}`:   "x7yzz", // the model would end before
		`root ::= "x7" "y"? "q"?`: "x7y",   // the model may end here
	} {
		all, res, err := b.ask(t, shared.GenerateRequest{Grammar: grammar})
		if err != nil || all.Text != want || res.FinishReason != shared.FinishStop || res.Usage.CompletionTokens != len(want) {
			t.Errorf("%s gives %q, %+v, %v; want %q", grammar, all.Text, res, err, want)
		}
	}
	all, res, err := b.ask(t, shared.GenerateRequest{Grammar: `root ::= [0-9]{3}`, MaxTokens: 2})
	if err != nil || all.Text != "07" || res.FinishReason != shared.FinishLength {
		t.Errorf("%q, %+v, %v", all.Text, res, err)
	}
}

func TestGrammarErrorsEndTheirRequestOnly(t *testing.T) {
	b := newBench(t, spell('a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'), 1, 64, 16, 1)
	defer b.end(t)
	for grammar, want := range map[string]string{
		`root ::= (`:        "closing )",
		`root ::= root "a"`: "left-recursive",
		`root ::= []`:       "no text at all",
		`root ::= "aa" []`:  "no token",
		`root ::= "a" root "b" | "a" root "c" | "a" root "d"`: "too ambiguous",
	} {
		_, _, err := b.ask(t, shared.GenerateRequest{Grammar: grammar})
		e := shared.AsError(err, "", "")
		if e == nil || e.Kind != shared.KindInvalid || e.Field != "grammar" || !strings.Contains(e.Text(), want) {
			t.Errorf("%s: %v, want %q", grammar, err, want)
		}
		b.balanced(t)
	}
	if _, _, err := b.ask(t, shared.GenerateRequest{Grammar: `root ::= "a"`, IgnoreEOS: true}); shared.KindOf(err) != shared.KindInvalid {
		t.Errorf("with ignore_eos: %v", err)
	}
	if all, _, err := b.ask(t, shared.GenerateRequest{Grammar: `root ::= "a"+ "b"`, MaxTokens: 3}); err != nil || all.Text != "aaa" {
		t.Errorf("afterwards: %q, %v", all.Text, err)
	}
}
