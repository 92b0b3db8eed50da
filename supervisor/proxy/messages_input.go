package proxy

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/firstframe/firstframe/shared"
)

// Content blocks of Anthropic's messages, by type.
type (
	textBlock struct {
		Type         string         `json:"type"`
		Text         string         `json:"text"`
		CacheControl jsontext.Value `json:"cache_control"`
		Citations    jsontext.Value `json:"citations"`
	}
	thinkingBlock struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"` // nothing here is signed
	}
	toolUseBlock struct {
		Type         string         `json:"type"`
		ID           string         `json:"id"`
		Name         string         `json:"name"`
		Input        jsontext.Value `json:"input"`
		Caller       jsontext.Value `json:"caller"`
		CacheControl jsontext.Value `json:"cache_control"`
	}
	toolResultBlock struct {
		Type         string         `json:"type"`
		ToolUseID    string         `json:"tool_use_id"`
		Content      jsontext.Value `json:"content"`
		IsError      *bool          `json:"is_error"` // the content says what went wrong
		CacheControl jsontext.Value `json:"cache_control"`
	}
)

// readTurns makes turns of Anthropic's messages.
func readTurns(system jsontext.Value, messages []messageTurn) ([]shared.Message, error) {
	var t turns
	if len(system) > 0 && system.Kind() != 'n' {
		text, err := readTexts(system, "system")
		if err != nil {
			return nil, err
		}
		if text != "" {
			t.add(shared.Message{Role: "system", Content: text})
		}
	}
	if len(messages) == 0 {
		return nil, badRequest("missing_parameter", "messages", "messages is missing or empty")
	}
	for i, m := range messages {
		param := fmt.Sprintf("messages.%d", i)
		var err error
		switch m.Role {
		case "user":
			err = t.user(m.Content, param+".content")
		case "assistant":
			err = t.answered(m.Content, param+".content")
		default:
			err = badRequest("invalid_value", param+".role", "messages are of role user or assistant, not %q", m.Role)
		}
		if err != nil {
			return nil, err
		}
		if len(t.list) > maxMessages {
			return nil, badRequest("invalid_value", "messages", "at most %d messages and results of tools are allowed", maxMessages)
		}
	}
	if t.list[len(t.list)-1].Role == "assistant" {
		return nil, badRequest("unsupported_parameter", "messages",
			"the last message has to be the user's: this version does not continue an assistant's message")
	}
	return t.list, nil
}

// user reads a user's message. Results of tools are turns of their own, and users'
// messages that follow each other are one.
func (t *turns) user(content jsontext.Value, param string) error {
	return eachBlock(content, param, func(v jsontext.Value, param string) error {
		if typeOf(v) != "tool_result" {
			text, err := readText(v, param)
			if err != nil {
				return err
			}
			if n := len(t.list); n > 0 && t.list[n-1].Role == "user" {
				t.list[n-1].Content = joinLines(t.list[n-1].Content, text)
				return nil
			}
			t.add(shared.Message{Role: "user", Content: text})
			return nil
		}
		var result toolResultBlock
		if err := decodeWithin(v, &result, param); err != nil {
			return err
		}
		if result.ToolUseID == "" {
			return badRequest("missing_parameter", param+".tool_use_id", "a tool's result needs its tool_use_id")
		}
		var text string
		if len(result.Content) > 0 && result.Content.Kind() != 'n' {
			var err error
			if text, err = readTexts(result.Content, param+".content"); err != nil {
				return err
			}
		}
		t.add(shared.Message{Role: "tool", Content: text, ToolCallID: result.ToolUseID})
		return nil
	})
}

// answered reads an assistant's message.
func (t *turns) answered(content jsontext.Value, param string) error {
	return eachBlock(content, param, func(v jsontext.Value, param string) error {
		turn := t.assistant()
		switch typeOf(v) {
		case "thinking":
			var thought thinkingBlock
			if err := decodeWithin(v, &thought, param); err != nil {
				return err
			}
			turn.Reasoning = joinLines(turn.Reasoning, thought.Thinking)
		case "tool_use":
			var call toolUseBlock
			if err := decodeWithin(v, &call, param); err != nil {
				return err
			}
			if call.ID == "" || call.Name == "" || call.Input.Kind() != '{' {
				return badRequest("invalid_value", param, "a use of a tool has an id, a name, and an object as input")
			}
			turn.ToolCalls = append(turn.ToolCalls, shared.ToolCall{
				Index: len(turn.ToolCalls), ID: call.ID, Name: call.Name, Arguments: string(call.Input),
			})
		default:
			text, err := readText(v, param)
			if err != nil {
				return err
			}
			turn.Content = joinLines(turn.Content, text)
		}
		return nil
	})
}

// eachBlock goes through content, which is a text or a list of blocks.
func eachBlock(v jsontext.Value, param string, each func(jsontext.Value, string) error) error {
	var text string
	var blocks []jsontext.Value
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return badRequest("missing_parameter", param, "%s is missing", param)
	case v.Kind() == '"' && decodeJSON(v, &text) == nil:
		return each(v, param)
	case v.Kind() != '[' || decodeJSON(v, &blocks) != nil:
		return badRequest("invalid_type", param, "%s is a text or a list of content blocks", param)
	case len(blocks) == 0:
		return badRequest("invalid_value", param, "%s is empty", param)
	}
	for i, b := range blocks {
		if err := each(b, fmt.Sprintf("%s.%d", param, i)); err != nil {
			return err
		}
	}
	return nil
}

// readTexts reads a text or blocks of text.
func readTexts(v jsontext.Value, param string) (text string, err error) {
	err = eachBlock(v, param, func(b jsontext.Value, param string) error {
		more, err := readText(b, param)
		text = joinLines(text, more)
		return err
	})
	return text, err
}

// readText reads a text, or a block of one.
func readText(v jsontext.Value, param string) (string, error) {
	var text string
	if v.Kind() == '"' {
		err := decodeWithin(v, &text, param)
		return text, err
	}
	if kind := typeOf(v); kind != "text" {
		return "", badRequest("unsupported_parameter", param, "content blocks of type %q are not supported here", kind)
	}
	var block textBlock
	if err := decodeWithin(v, &block, param); err != nil {
		return "", err
	}
	if given(block.Citations) {
		return "", badRequest("unsupported_parameter", param+".citations", "citations are not supported by this version")
	}
	return block.Text, nil
}

// joinLines keeps texts apart that were blocks of their own.
func joinLines(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}
