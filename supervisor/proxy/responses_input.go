package proxy

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// Items of a response's input, by type.
type (
	inputMessage struct {
		Type    string         `json:"type"`
		ID      string         `json:"id"`
		Status  string         `json:"status"`
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	}
	inputCall struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	inputCallOutput struct {
		Type   string         `json:"type"`
		ID     string         `json:"id"`
		Status string         `json:"status"`
		CallID string         `json:"call_id"`
		Output jsontext.Value `json:"output"`
	}
	inputReasoning struct {
		Type             string           `json:"type"`
		ID               string           `json:"id"`
		Status           string           `json:"status"`
		Summary          []jsontext.Value `json:"summary"`
		Content          jsontext.Value   `json:"content"`
		EncryptedContent *string          `json:"encrypted_content"`
	}
)

// inputPart is a piece of text of an item.
type inputPart struct {
	Type        string           `json:"type"`
	Text        string           `json:"text"`
	Annotations []jsontext.Value `json:"annotations"`
	Logprobs    []jsontext.Value `json:"logprobs"`
}

// readItems makes turns of a text or of a list of items.
func readItems(input jsontext.Value) ([]shared.Message, error) {
	var text string
	var items []jsontext.Value
	switch {
	case len(input) == 0 || input.Kind() == 'n':
		return nil, badRequest("missing_parameter", "input", "input is missing")
	case input.Kind() == '"' && decodeJSON(input, &text) == nil:
		return []shared.Message{{Role: "user", Content: text}}, nil
	case input.Kind() != '[' || decodeJSON(input, &items) != nil:
		return nil, badRequest("invalid_type", "input", "input is a text or a list of items")
	case len(items) == 0 || len(items) > maxMessages:
		return nil, badRequest("invalid_value", "input", "input has to have 1 to %d items", maxMessages)
	}
	var t turns
	for i, v := range items {
		if err := t.item(v, fmt.Sprintf("input.%d", i)); err != nil {
			return nil, err
		}
	}
	return t.list, nil
}

// turns puts items together to the turns that a chat template knows: what an
// assistant thinks, says and calls is one.
type turns struct {
	list []shared.Message
	open bool // the last turn is the assistant's, and calls may follow
}

// assistant is the turn that what an assistant does belongs to.
func (t *turns) assistant() *shared.Message {
	if !t.open {
		t.list = append(t.list, shared.Message{Role: "assistant"})
		t.open = true
	}
	return &t.list[len(t.list)-1]
}

func (t *turns) add(m shared.Message) {
	t.list = append(t.list, m)
	t.open = false
}

func (t *turns) item(v jsontext.Value, param string) error {
	switch kind := typeOf(v); kind {
	case "", "message":
		return t.message(v, param)
	case "function_call":
		var call inputCall
		if err := decodeWithin(v, &call, param); err != nil {
			return err
		}
		if call.Name == "" || call.CallID == "" || !isObject(call.Arguments) {
			return badRequest("invalid_value", param, "a function call has a call_id, a name, and as arguments a JSON object as text")
		}
		turn := t.assistant()
		turn.ToolCalls = append(turn.ToolCalls, shared.ToolCall{
			Index: len(turn.ToolCalls), ID: call.CallID, Name: call.Name, Arguments: call.Arguments,
		})
		return nil
	case "function_call_output":
		var out inputCallOutput
		if err := decodeWithin(v, &out, param); err != nil {
			return err
		}
		if out.CallID == "" {
			return badRequest("missing_parameter", param+".call_id", "a function call's output needs its call_id")
		}
		text, err := readParts(out.Output, param+".output", "input_text")
		t.add(shared.Message{Role: "tool", Content: text, ToolCallID: out.CallID})
		return err
	case "reasoning":
		var thought inputReasoning
		if err := decodeWithin(v, &thought, param); err != nil {
			return err
		}
		if len(thought.Content) == 0 || thought.Content.Kind() == 'n' {
			return nil // a summary is not what the model thought
		}
		text, err := readParts(thought.Content, param+".content", "reasoning_text")
		t.open = false // a thought begins a turn
		t.assistant().Reasoning = text
		return err
	default:
		return badRequest("unsupported_parameter", param, "items of type %q are not supported", kind)
	}
}

func (t *turns) message(v jsontext.Value, param string) error {
	var m inputMessage
	if err := decodeWithin(v, &m, param); err != nil {
		return err
	}
	text, err := readParts(m.Content, param+".content", "input_text", "output_text")
	if err != nil {
		return err
	}
	switch m.Role {
	case "user":
		t.add(shared.Message{Role: "user", Content: text})
	case "system", "developer":
		t.add(shared.Message{Role: "system", Content: text})
	case "assistant":
		// It follows its thought, but what said or called something is over.
		if turn := t.assistant(); turn.Content != "" || len(turn.ToolCalls) > 0 {
			t.open = false
		}
		t.assistant().Content = text
	default:
		return badRequest("invalid_value", param+".role", "messages of role %q are not supported", m.Role)
	}
	return nil
}

// readParts reads a text or a list of parts that are text, under these types.
func readParts(v jsontext.Value, param string, kinds ...string) (string, error) {
	var text string
	var parts []jsontext.Value
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return "", badRequest("missing_parameter", param, "%s is missing", param)
	case v.Kind() == '"' && decodeJSON(v, &text) == nil:
		return text, nil
	case v.Kind() != '[' || decodeJSON(v, &parts) != nil:
		return "", badRequest("invalid_type", param, "%s is a text or a list of parts", param)
	}
	for i, p := range parts {
		kind, known := typeOf(p), false
		for _, k := range kinds {
			known = known || k == kind
		}
		if !known {
			return "", badRequest("unsupported_parameter", param, "content parts of type %q are not supported", kind)
		}
		var part inputPart
		if err := decodeWithin(p, &part, fmt.Sprintf("%s.%d", param, i)); err != nil {
			return "", err
		}
		text += part.Text
	}
	return text, nil
}
