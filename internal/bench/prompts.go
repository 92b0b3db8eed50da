package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Prompts makes texts that are the same for the same seed, on every machine.
type Prompts struct {
	seed uint64
	// tokensPerWord is measured with the model's own tokenizer.
	tokensPerWord float64
}

// words are short and common, so that tokenizers treat them alike.
const words = `a big small red blue green old new good happy little fox cat dog bird tree house river boat ball
sun day night friend girl boy mother play run jump look find help give take say want love walk sing eat sleep open`

// NewPrompts measures how many tokens a word has with count, which may be nil
// for whoever has no tokenizer at hand.
func NewPrompts(ctx context.Context, seed uint64, count func(context.Context, string) (int, error)) (*Prompts, error) {
	p := &Prompts{seed: seed, tokensPerWord: 1.3}
	if count == nil {
		return p, nil
	}
	const sample = 256
	n, err := count(ctx, p.words(0, sample))
	if err != nil {
		return nil, fmt.Errorf("cannot count the tokens of a prompt: %w", err)
	}
	if n > 0 {
		p.tokensPerWord = float64(n) / sample
	}
	return p, nil
}

// Text is the text with a number, about that many tokens long. Texts with
// different numbers differ from their first word on.
func (p *Prompts) Text(number, tokens int) string {
	head := fmt.Sprintf("%d %d. ", number, p.seed)
	n := max(1, int(float64(tokens)/p.tokensPerWord)-len(head)/2)
	return head + p.words(number, n)
}

func (p *Prompts) words(number, n int) string {
	list := strings.Fields(words)
	random := rand.New(rand.NewPCG(p.seed, uint64(number)))
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(list[random.IntN(len(list))])
	}
	return b.String()
}

// Unique gives n questions that have nothing in common, of about that many
// tokens each, numbered from first on.
func (p *Prompts) Unique(first, n, tokens, maxTokens int) []Question {
	questions := make([]Question, n)
	for i := range questions {
		questions[i] = Question{Text: p.Text(first+i, tokens), MaxTokens: maxTokens}
	}
	return questions
}

// SharedPrefix is the workload of many conversations that share system prompts.
type SharedPrefix struct {
	Prefixes       int
	PrefixTokens   int
	QuestionTokens int
	Rounds         int
	MaxTokens      int
}

// Scaled makes the workload fit a context: prefix, question and answer.
func (w SharedPrefix) Scaled(contextTokens int) SharedPrefix {
	room := contextTokens - w.QuestionTokens - w.MaxTokens - 48 // for the template
	w.PrefixTokens = max(16, min(w.PrefixTokens, room))
	return w
}

// Questions asks each prefix in turn, round by round: the first round of
// Prefixes questions is new to everybody, later ones share their prefix with it.
func (p *Prompts) Questions(first int, w SharedPrefix) []Question {
	systems := make([]string, w.Prefixes)
	for i := range systems {
		systems[i] = p.Text(first+i, w.PrefixTokens)
	}
	questions := make([]Question, 0, w.Prefixes*w.Rounds)
	for round := range w.Rounds {
		for i, system := range systems {
			number := first + w.Prefixes + round*w.Prefixes + i
			questions = append(questions, Question{System: system, Text: p.Text(number, w.QuestionTokens), MaxTokens: w.MaxTokens})
		}
	}
	return questions
}
