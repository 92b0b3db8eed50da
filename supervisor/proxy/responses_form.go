package proxy

import (
	"fmt"

	"github.com/firstframe/firstframe/shared"
)

// responseItem is one thing that a response puts out: a thought, a message or a
// call. Lists that a type has are never null.
type responseItem struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Status    string         `json:"status"`
	Role      string         `json:"role,omitempty"`
	Summary   []struct{}     `json:"summary,omitzero"`
	Content   []responsePart `json:"content,omitzero"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Arguments *string        `json:"arguments,omitzero"`
}

type responsePart struct {
	Type        string             `json:"type"`
	Text        string             `json:"text"`
	Annotations []struct{}         `json:"annotations,omitzero"`
	Logprobs    []chatTokenLogprob `json:"logprobs,omitzero"`
}

// responseEvent is any event of a streamed response; its type says what it holds.
type responseEvent struct {
	Type         string             `json:"type"`
	Sequence     int                `json:"sequence_number"`
	Response     *responseBody      `json:"response,omitzero"`
	OutputIndex  *int               `json:"output_index,omitzero"`
	ItemID       string             `json:"item_id,omitempty"`
	ContentIndex *int               `json:"content_index,omitzero"`
	Item         *responseItem      `json:"item,omitzero"`
	Part         *responsePart      `json:"part,omitzero"`
	Delta        *string            `json:"delta,omitzero"`
	Text         *string            `json:"text,omitzero"`
	Name         string             `json:"name,omitempty"`
	Arguments    *string            `json:"arguments,omitzero"`
	Logprobs     []chatTokenLogprob `json:"logprobs,omitzero"`
}

// Types of items, and what a status is called.
const (
	itemReasoning = "reasoning"
	itemMessage   = "message"
	itemCall      = "function_call"

	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// responsesForm puts items together from pieces, and says what it does in events.
type responsesForm struct {
	body      responseBody
	requestID string
	sequence  int
	started   bool
	items     []responseItem
	open      bool // the last item goes on
}

func (r *responsesRequest) form(h answerHead) form {
	f := &responsesForm{requestID: h.requestID, body: r.echo()}
	f.body.ID, f.body.CreatedAt, f.body.Model = "resp_"+h.requestID, h.created.Unix(), h.model
	return f
}

func (f *responsesForm) id() string { return f.body.ID }

// event numbers an event.
func (f *responsesForm) event(e responseEvent) event {
	e.Sequence = f.sequence
	f.sequence++
	return event{name: e.Type, data: e}
}

// state is an event that has the response as it is.
func (f *responsesForm) state(kind, status string) event {
	body := f.body
	body.Status, body.Output = status, append([]responseItem{}, f.items...)
	return f.event(responseEvent{Type: kind, Response: &body})
}

// start is what every stream begins with.
func (f *responsesForm) start() []event {
	if f.started {
		return nil
	}
	f.started = true
	return []event{f.state("response.created", statusInProgress), f.state("response.in_progress", statusInProgress)}
}

func (f *responsesForm) delta(_ int, p piece) []event {
	all := f.start()
	if p.reasoning != "" {
		all = append(all, f.begin(itemReasoning)...)
		all = append(all, f.grow(p.reasoning, nil))
	}
	if p.text != "" {
		all = append(all, f.begin(itemMessage)...)
		all = append(all, f.grow(p.text, p.probs))
	}
	for _, c := range p.calls {
		if c.ID != "" {
			all = append(all, f.close(statusCompleted)...)
			all = append(all, f.add(responseItem{Type: itemCall, CallID: c.ID, Name: c.Name, Arguments: new(string)})...)
		}
		if c.Arguments != "" {
			item := f.last()
			*item.Arguments += c.Arguments
			all = append(all, f.about(responseEvent{Type: "response.function_call_arguments.delta", Delta: &c.Arguments}))
		}
	}
	return all
}

func (f *responsesForm) last() *responseItem { return &f.items[len(f.items)-1] }

// about is an event about the last item.
func (f *responsesForm) about(e responseEvent) event {
	index := len(f.items) - 1
	e.OutputIndex, e.ItemID = &index, f.items[index].ID
	return f.event(e)
}

// inPart is an event about the one part of the last item.
func (f *responsesForm) inPart(e responseEvent) event {
	e.ContentIndex = new(int)
	return f.about(e)
}

// begin opens an item of text, unless the last one is of that type and goes on.
func (f *responsesForm) begin(kind string) []event {
	if f.open && f.last().Type == kind {
		return nil
	}
	all := f.close(statusCompleted)
	item := responseItem{Type: kind, Content: []responsePart{}}
	part := responsePart{Type: "output_text", Annotations: []struct{}{}, Logprobs: []chatTokenLogprob{}}
	if kind == itemReasoning {
		item.Summary = []struct{}{}
		part = responsePart{Type: "reasoning_text"}
	} else {
		item.Role = "assistant"
	}
	all = append(all, f.add(item)...)
	f.last().Content = []responsePart{part}
	return append(all, f.inPart(responseEvent{Type: "response.content_part.added", Part: &part}))
}

// add opens an item.
func (f *responsesForm) add(item responseItem) []event {
	item.ID = fmt.Sprintf("%s_%s_%d", map[string]string{itemReasoning: "rs", itemMessage: "msg", itemCall: "fc"}[item.Type], f.requestID, len(f.items))
	item.Status = statusInProgress
	f.items, f.open = append(f.items, item), true
	index := len(f.items) - 1
	if item.Arguments != nil {
		item.Arguments = new(string) // the event's own
	}
	return []event{f.event(responseEvent{Type: "response.output_item.added", OutputIndex: &index, Item: &item})}
}

// grow adds text to the last item.
func (f *responsesForm) grow(text string, probs []shared.TokenLogprob) event {
	part := &f.last().Content[0]
	part.Text += text
	if f.last().Type == itemReasoning {
		return f.inPart(responseEvent{Type: "response.reasoning_text.delta", Delta: &text})
	}
	own := []chatTokenLogprob{}
	if list := toChatLogprobs(probs); list != nil {
		own = list.Content
	}
	part.Logprobs = append(part.Logprobs, own...)
	return f.inPart(responseEvent{Type: "response.output_text.delta", Delta: &text, Logprobs: own})
}

// close ends the last item.
func (f *responsesForm) close(status string) []event {
	if !f.open {
		return nil
	}
	f.open = false
	item := f.last()
	item.Status = status
	var all []event
	switch item.Type {
	case itemCall:
		all = append(all, f.about(responseEvent{Type: "response.function_call_arguments.done", Name: item.Name, Arguments: item.Arguments}))
	case itemReasoning:
		part := item.Content[0]
		all = append(all,
			f.inPart(responseEvent{Type: "response.reasoning_text.done", Text: &part.Text}),
			f.inPart(responseEvent{Type: "response.content_part.done", Part: &part}))
	default:
		part := item.Content[0]
		all = append(all,
			f.inPart(responseEvent{Type: "response.output_text.done", Text: &part.Text, Logprobs: part.Logprobs}),
			f.inPart(responseEvent{Type: "response.content_part.done", Part: &part}))
	}
	done := *item
	index := len(f.items) - 1
	return append(all, f.event(responseEvent{Type: "response.output_item.done", OutputIndex: &index, Item: &done}))
}

func (*responsesForm) finish(int, shared.Measured) []event { return nil }

// conclude notes how the answer ended; the status is the response's.
func (f *responsesForm) conclude(m shared.Measured) (status string, all []event) {
	status = statusCompleted
	if m.FinishReason == shared.FinishLength {
		status = statusIncomplete
		f.body.IncompleteDetails = &incompleteDetails{Reason: "max_output_tokens"}
	}
	all = f.close(status)
	if status == statusCompleted {
		f.body.CompletedAt = f.body.CreatedAt + int64(m.FullResponse.Seconds())
	}
	f.body.Model, f.body.Usage, f.body.Timings = modelID(m.Model, m.Identity), toResponseUsage(m.Usage), toTimings(m)
	return status, all
}

func (f *responsesForm) end(results []shared.Measured) []event {
	all := f.start()
	status, last := f.conclude(results[0])
	return append(append(all, last...), f.state("response."+status, status))
}

func (f *responsesForm) failed(err error) []event {
	_, body := describe(err)
	f.body.Error = &responseError{Code: body.Error.Code, Message: body.Error.Message}
	return []event{f.state("response.failed", statusFailed)}
}

func (f *responsesForm) whole(results []shared.Measured, pieces []piece) any {
	f.delta(0, pieces[0])
	f.body.Status, _ = f.conclude(results[0])
	f.body.Output = append([]responseItem{}, f.items...)
	return f.body
}
