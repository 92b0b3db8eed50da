package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/firstframe/firstframe/shared"
)

// maxChatLine bounds one message.
const maxChatLine = 1 << 20

const chatHelp = "  /clear   forget the conversation\n  /system TEXT   begin anew with a system message\n  /bye   end (or Ctrl-D)\n  Ctrl-C ends an answer early."

// chatSettings is what every request of a chat has in common.
type chatSettings struct {
	system    string
	maxTokens int
	sampling  shared.Sampling
	template  bool // the model has a chat template
}

// chat is a conversation with one slot.
type chat struct {
	app      *app
	frontend shared.Frontend
	slot     string
	settings chatSettings
	messages []shared.Message
	lines    lineReader
}

func newChat(a *app, f shared.Frontend, slot string, s chatSettings) *chat {
	c := &chat{app: a, frontend: f, slot: slot, settings: s, lines: newLineReader(a)}
	c.clear()
	return c
}

func (c *chat) clear() {
	c.messages = nil
	if c.settings.system != "" {
		c.messages = []shared.Message{{Role: "system", Content: c.settings.system}}
	}
}

// run takes messages until the input ends. A message that could not be answered
// is said to be so, and the chat goes on.
func (c *chat) run(ctx context.Context) error {
	if c.lines.interactive() {
		c.app.progressf("Ask something; /help lists what else there is.")
	}
	for {
		line, err := c.lines.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch command, rest, _ := strings.Cut(strings.TrimSpace(line), " "); command {
		case "":
		case "/bye", "/exit", "/quit":
			return nil
		case "/clear":
			c.clear()
		case "/system":
			c.settings.system = strings.TrimSpace(rest)
			c.clear()
		case "/help", "/?":
			c.app.progressf(chatHelp)
		default:
			if err := c.answer(ctx, line); err != nil {
				if ctx.Err() != nil || !c.lines.interactive() {
					return err
				}
				c.app.progressf("firstframe: %v", err)
			}
		}
	}
}

// answer sends one message and shows what comes back. The message stays part of
// the conversation only if it was answered.
func (c *chat) answer(ctx context.Context, message string) error {
	if c.lines.interactive() {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
	}
	messages := slices.Concat(c.messages, []shared.Message{{Role: "user", Content: message}})
	req := shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: c.slot}, MaxTokens: c.settings.maxTokens, Sampling: c.settings.sampling,
	}
	if c.settings.template {
		req.Messages = messages
	} else {
		req.Prompt = message // a base model continues text, and knows no roles
	}
	m, said, err := c.app.stream(ctx, c.frontend, req, generateFlags{width: c.lines.width()})
	text := said.Text
	if text != "" {
		fmt.Fprintln(c.app.out)
	}
	if shared.KindOf(err) == shared.KindCancelled && text != "" {
		err = nil // what was said until then counts
	} else if err == nil && c.lines.interactive() {
		newBars(c.app.errOut).request(m)
	}
	if err != nil {
		return err
	}
	c.messages = slices.Concat(messages, []shared.Message{{Role: "assistant", Content: text}})
	return nil
}

// lineReader reads messages: with an editable line on a terminal, else one a line.
type lineReader struct {
	app     *app
	scanner *bufio.Scanner
	fd      int
	editor  *term.Terminal // nil when the input is no terminal
}

func newLineReader(a *app) lineReader {
	r := lineReader{app: a}
	if in, ok := a.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) && isTerminal(a.out) {
		r.fd = int(in.Fd())
		r.editor = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{in, a.out}, ">>> ")
		return r
	}
	r.scanner = bufio.NewScanner(a.in)
	r.scanner.Buffer(nil, maxChatLine)
	return r
}

func (r *lineReader) interactive() bool { return r.editor != nil }

// width is that of the terminal, within which answers are broken; 0 when there is none.
func (r *lineReader) width() int {
	if !r.interactive() {
		return 0
	}
	width, _, err := term.GetSize(r.fd)
	if err != nil {
		return 0
	}
	return width
}

// next is the next message; Ctrl-C and Ctrl-D at an empty line end the input.
// The terminal is in raw mode only while a line is edited, so that Ctrl-C is a
// signal during an answer.
func (r *lineReader) next(ctx context.Context) (line string, err error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	if r.editor == nil {
		if !r.scanner.Scan() {
			if err := r.scanner.Err(); err != nil {
				return "", fmt.Errorf("cannot read the next message: %w", err)
			}
			return "", io.EOF
		}
		return r.scanner.Text(), nil
	}
	before, err := term.MakeRaw(r.fd)
	if err != nil {
		return "", fmt.Errorf("cannot read from the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(r.fd, before)) }()
	if width, height, err := term.GetSize(r.fd); err == nil && width > 0 {
		_ = r.editor.SetSize(width, height) // it only ever fails to redraw
	}
	line, err = r.editor.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}
