package slotworker

import (
	"time"

	"github.com/firstframe/firstframe/shared"
)

// answerParser takes an answer's text apart as it comes: what the model thinks,
// what it says and which tools it calls. What is thought calls no tools.
type answerParser struct {
	think *thinkSplitter // nil when the model does not think
	calls *toolParser    // nil when there are no tools

	// What comes with the first text, until there is content for it.
	phases *shared.Phases
	usage  *shared.Usage
	since  time.Time
}

// chunk sorts the text of a chunk.
func (p *answerParser) chunk(c shared.Chunk) shared.Chunk {
	if p.think != nil {
		c.Reasoning, c.Text = p.think.push(c.Text)
	}
	if p.calls != nil {
		c.Text, c.ToolCalls = p.calls.push(c.Text)
	}
	return p.stamp(c)
}

// end gives what was held back.
func (p *answerParser) end() shared.Chunk {
	var c shared.Chunk
	if p.think != nil {
		c.Reasoning, c.Text = p.think.end()
	}
	if p.calls != nil {
		c.Text, c.ToolCalls = p.calls.push(c.Text)
		c.Text += p.calls.end()
	}
	return p.stamp(c)
}

// stamp puts the phases on the first chunk with content. What the text waited to
// become content belongs to the first token's decoding.
func (p *answerParser) stamp(c shared.Chunk) shared.Chunk {
	if c.Phases != nil {
		p.phases, p.usage, p.since = c.Phases, c.Usage, time.Now()
		c.Phases, c.Usage = nil, nil
	}
	if c.HasContent() && p.phases != nil {
		p.phases.DecodeFirstToken += time.Since(p.since)
		c.Phases, c.Usage = p.phases, p.usage
		p.phases = nil
	}
	return c
}

// called reports whether a tool was called.
func (p *answerParser) called() bool { return p.calls != nil && p.calls.calls > 0 }

// thinks makes a splitter for a request's answer, nil when all of it is said: a
// grammar leaves no room for thoughts.
func (r *resident) thinks(req shared.GenerateRequest, prompt []int32) *thinkSplitter {
	if r.thinking == nil || len(req.Messages) == 0 || req.Grammar != "" || req.ToolChoice == shared.ToolRequired {
		return nil
	}
	return newThinkSplitter(r.thinking, thinkOpened(r.thinking, r.tail(prompt)))
}

// tail is the text of a prompt's last tokens, enough for a mark and what follows it.
func (r *resident) tail(prompt []int32) string {
	const enough = 16
	var text []byte
	for _, token := range prompt[max(0, len(prompt)-enough):] {
		text = append(text, r.model.Piece(token, true)...)
	}
	return string(text)
}

// parser is what an answer goes through, nil when all of it is said.
func (r *resident) parser(req shared.GenerateRequest, think *thinkSplitter) *answerParser {
	if think == nil && len(req.Tools) == 0 {
		return nil
	}
	p := &answerParser{think: think}
	if len(req.Tools) > 0 {
		p.calls = newToolParser(r.tools)
	}
	return p
}
