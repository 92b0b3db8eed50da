package proxy

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// contentBlock is a part of an answer; its type says which fields it has.
type contentBlock struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text,omitzero"`
	Thinking  *string        `json:"thinking,omitzero"`
	Signature *string        `json:"signature,omitzero"`
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Input     jsontext.Value `json:"input,omitzero"`
}

// messageBody is an answer of /v1/messages.
type messageBody struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Model        string         `json:"model"`
	Content      []contentBlock `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        messageUsage   `json:"usage"`
	Timings      *timingsJSON   `json:"timings,omitempty"`
}

// messageUsage counts the prompt's tokens in two parts, as Anthropic does.
type messageUsage struct {
	InputTokens              int `json:"input_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
	OutputTokens             int `json:"output_tokens"`
}

func toMessageUsage(u shared.Usage) messageUsage {
	return messageUsage{
		InputTokens: u.PromptTokens - u.CachedTokens, CacheReadInputTokens: u.CachedTokens, OutputTokens: u.CompletionTokens,
	}
}

// messageEvent is any event of a streamed answer; its type says what it holds.
type messageEvent struct {
	Type         string        `json:"type"`
	Message      *messageBody  `json:"message,omitzero"`
	Index        *int          `json:"index,omitzero"`
	ContentBlock *contentBlock `json:"content_block,omitzero"`
	Delta        any           `json:"delta,omitzero"`
	Usage        *messageUsage `json:"usage,omitzero"`
	Timings      *timingsJSON  `json:"timings,omitzero"`
}

type (
	textDelta struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	thinkingDelta struct {
		Type     string `json:"type"`
		Thinking string `json:"thinking"`
	}
	inputDelta struct {
		Type        string `json:"type"`
		PartialJSON string `json:"partial_json"`
	}
	stopDelta struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
)

// messagesForm puts blocks together from pieces, and says what it does in events.
type messagesForm struct {
	body    messageBody
	started bool
	open    bool // the last block goes on
	input   []byte
}

func (r *messagesRequest) form(h answerHead) form {
	return &messagesForm{body: messageBody{
		ID: "msg_" + h.requestID, Type: "message", Role: "assistant", Model: h.model, Content: []contentBlock{},
	}}
}

func (f *messagesForm) id() string { return f.body.ID }

func say(e messageEvent) event { return event{name: e.Type, data: e} }

// start is what every stream begins with.
func (f *messagesForm) start(prompt shared.Usage) []event {
	if f.started {
		return nil
	}
	f.started = true
	body := f.body
	body.Usage = toMessageUsage(prompt)
	return []event{say(messageEvent{Type: "message_start", Message: &body})}
}

func (f *messagesForm) delta(_ int, p piece) []event {
	all := f.start(p.prompt)
	if p.reasoning != "" {
		all = append(all, f.begin(contentBlock{Type: "thinking", Thinking: new(string), Signature: new(string)})...)
		*f.last().Thinking += p.reasoning
		all = append(all, f.about("content_block_delta", thinkingDelta{Type: "thinking_delta", Thinking: p.reasoning}))
	}
	if p.text != "" {
		all = append(all, f.begin(contentBlock{Type: "text", Text: new(string)})...)
		*f.last().Text += p.text
		all = append(all, f.about("content_block_delta", textDelta{Type: "text_delta", Text: p.text}))
	}
	for _, c := range p.calls {
		if c.ID != "" {
			all = append(all, f.begin(contentBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: jsontext.Value("{}")})...)
		}
		if c.Arguments != "" {
			f.input = append(f.input, c.Arguments...)
			all = append(all, f.about("content_block_delta", inputDelta{Type: "input_json_delta", PartialJSON: c.Arguments}))
		}
	}
	return all
}

func (f *messagesForm) last() *contentBlock { return &f.body.Content[len(f.body.Content)-1] }

// about is an event about the last block.
func (f *messagesForm) about(kind string, delta any) event {
	index := len(f.body.Content) - 1
	return say(messageEvent{Type: kind, Index: &index, Delta: delta})
}

// begin opens a block. Text goes on in the one of its type that is open.
func (f *messagesForm) begin(block contentBlock) []event {
	if f.open && f.last().Type == block.Type && block.ID == "" {
		return nil
	}
	all := f.close()
	f.body.Content, f.open = append(f.body.Content, block), true
	index := len(f.body.Content) - 1
	first := block // as it is now, before text comes
	if block.Text != nil {
		first.Text = new(string)
	}
	if block.Thinking != nil {
		first.Thinking = new(string)
	}
	return append(all, say(messageEvent{Type: "content_block_start", Index: &index, ContentBlock: &first}))
}

// close ends the last block. Arguments that a limit has cut off are no input.
func (f *messagesForm) close() []event {
	if !f.open {
		return nil
	}
	f.open = false
	if input := jsontext.Value(f.input); f.last().Type == "tool_use" && input.IsValid() {
		f.last().Input = input
	}
	f.input = nil
	return []event{f.about("content_block_stop", nil)}
}

func (*messagesForm) finish(int, shared.Measured) []event { return nil }

func (f *messagesForm) end(results []shared.Measured) []event {
	m := results[0]
	all := append(f.start(m.Usage), f.close()...)
	usage := toMessageUsage(m.Usage)
	reason, sequence := stopReason(m)
	return append(all,
		say(messageEvent{Type: "message_delta", Delta: stopDelta{StopReason: &reason, StopSequence: sequence}, Usage: &usage}),
		say(messageEvent{Type: "message_stop", Timings: toTimings(m)}))
}

// stopReason is why an answer has ended, and the stop sequence that ended it.
func stopReason(m shared.Measured) (reason string, sequence *string) {
	switch {
	case m.FinishReason == shared.FinishTools:
		return "tool_use", nil
	case m.FinishReason == shared.FinishLength:
		return "max_tokens", nil
	case m.StopString != "":
		return "stop_sequence", &m.StopString
	default:
		return "end_turn", nil
	}
}

func (f *messagesForm) failed(err error) []event {
	status, body := describe(err)
	return []event{{name: "error", data: toAnthropicError(status, body.Error, "")}}
}

func (f *messagesForm) whole(results []shared.Measured, pieces []piece) any {
	m := results[0]
	f.delta(0, pieces[0])
	f.close()
	reason, sequence := stopReason(m)
	f.body.StopReason, f.body.StopSequence = &reason, sequence
	f.body.Model, f.body.Usage, f.body.Timings = modelID(m.Model, m.Identity), toMessageUsage(m.Usage), toTimings(m)
	return f.body
}
