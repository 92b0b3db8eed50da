package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

// maxPromptBytes bounds a prompt from standard input.
const maxPromptBytes = 16 << 20

type generateFlags struct {
	file          modelFile // without a name, the running supervisor answers
	requirement   shared.Requirement
	maxTokens     int
	temperature   float32
	topK          int
	topP, minP    float32
	seed          uint32
	stop          []string
	system        string
	raw           bool
	onMiss        string
	deadline      time.Duration
	json, ndjson  bool
	phases        bool
	ignoreEOS     bool
	repeatPenalty float32
	answer        answerFlags
	width         int // within which text is broken at spaces; 0 leaves it as it comes
}

func (a *app) generateCmd() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate [flags] PROMPT",
		Short: "Run one request on a running supervisor, or on a model file",
		Long: "Run one request on a running supervisor, or with --file on a model file in a supervisor of its own.\n" +
			"The answer goes to standard output as it is made. PROMPT is one user message, rendered with the\n" +
			"model's chat template; - reads it from standard input.",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.generate(cmd.Context(), f, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file.name, "file", "", "run on this model file, or name in a local store, without a running supervisor")
	f.file.register(flags)
	flags.StringVar(&f.requirement.SlotID, "slot", "", "run on this slot")
	flags.StringVar(&f.requirement.Model, "model", "", "model name, alias or slot name")
	flags.StringVar(&f.requirement.Precision, "precision", "", "exact precision, such as Q8_0")
	flags.StringVar(&f.requirement.ModelRevision, "revision", "", "exact model revision, sha256:…")
	flags.StringVar(&f.requirement.LayoutRevision, "layout", "", "exact layout revision")
	flags.StringVar(&f.requirement.TokenizerRevision, "tokenizer", "", "exact tokenizer revision")
	flags.IntVar(&f.maxTokens, "max-tokens", 0, "most tokens to generate (0: until the context is full)")
	flags.Float32Var(&f.temperature, "temperature", 0, "sampling temperature (0: greedy)")
	flags.IntVar(&f.topK, "top-k", 0, "sample from the k likeliest tokens (0: all)")
	flags.Float32Var(&f.topP, "top-p", 0, "sample from the likeliest tokens that reach p together (0: all)")
	flags.Float32Var(&f.minP, "min-p", 0, "drop tokens less likely than p times the likeliest (0: none)")
	flags.Float32Var(&f.repeatPenalty, "repeat-penalty", 0, "penalty on repeated tokens (0: none)")
	flags.Uint32Var(&f.seed, "seed", 0, "seed for sampling (0: random)")
	flags.StringArrayVar(&f.stop, "stop", nil, "end before this text; may be repeated")
	flags.BoolVar(&f.ignoreEOS, "ignore-eos", false, "go on after the end-of-text token")
	flags.StringVar(&f.requirement.SlotRevision, "slot-revision", "", "exact slot revision, which covers the adapters")
	flags.StringVar(&f.system, "system", "", "system message before the prompt")
	flags.BoolVar(&f.raw, "raw", false, "use PROMPT as it is, without the chat template")
	flags.StringVar(&f.onMiss, "on-miss", "", "when the slot is not resident: wait, pending or fail (default: the slot's own)")
	flags.DurationVar(&f.deadline, "deadline", 0, "longest time for the request (default 5m)")
	flags.BoolVar(&f.json, "json", false, "print one JSON document instead of text")
	flags.BoolVar(&f.ndjson, "ndjson", false, "print one JSON event a line")
	f.answer.register(flags)
	flags.BoolVar(&f.phases, "phases", false, "draw the phases to standard error afterwards")
	return cmd
}

func (f generateFlags) request(prompt string) (shared.GenerateRequest, error) {
	switch shared.OnMiss(f.onMiss) {
	case "", shared.OnMissWait, shared.OnMissPending, shared.OnMissFail:
	default:
		return shared.GenerateRequest{}, &usageError{errors.New("--on-miss is wait, pending or fail")}
	}
	for _, both := range []struct {
		set   bool
		names string
	}{
		{f.requirement.SlotID != "" && f.requirement.Model != "", "--slot and --model"},
		{f.file.name != "" && f.requirement != shared.Requirement{}, "--file and what chooses among slots"},
		{f.json && f.ndjson, "--json and --ndjson"},
		{f.raw && f.system != "", "--raw and --system"},
	} {
		if both.set {
			return shared.GenerateRequest{}, &usageError{errors.New(both.names + " exclude each other")}
		}
	}
	if f.file.name == "" && (f.file.contextTokens != 0 || f.file.threads != 0) {
		return shared.GenerateRequest{}, &usageError{errors.New("--context and --threads need --file")}
	}
	if err := f.file.check(); err != nil {
		return shared.GenerateRequest{}, err
	}
	if f.maxTokens < 0 || f.deadline < 0 || f.topK < 0 {
		return shared.GenerateRequest{}, &usageError{errors.New("--max-tokens, --top-k and --deadline cannot be negative")}
	}
	req := shared.GenerateRequest{
		Requirement: f.requirement, MaxTokens: f.maxTokens, Stop: f.stop, IgnoreEOS: f.ignoreEOS,
		OnMiss: shared.OnMiss(f.onMiss), Deadline: f.deadline,
		Sampling: shared.Sampling{
			Temperature: f.temperature, TopK: f.topK, TopP: f.topP, MinP: f.minP, Seed: f.seed, RepeatPenalty: f.repeatPenalty,
		},
	}
	if err := f.answer.apply(&req, f.json || f.ndjson); err != nil {
		return shared.GenerateRequest{}, err
	}
	if f.raw {
		req.Prompt = prompt
		return req, nil
	}
	if f.system != "" {
		req.Messages = append(req.Messages, shared.Message{Role: "system", Content: f.system})
	}
	req.Messages = append(req.Messages, shared.Message{Role: "user", Content: prompt})
	return req, nil
}

func (a *app) generate(ctx context.Context, f generateFlags, prompt string) error {
	if prompt == "-" {
		text, err := io.ReadAll(io.LimitReader(a.in, maxPromptBytes+1))
		if err != nil {
			return err
		}
		if len(text) > maxPromptBytes {
			return &usageError{errors.New("the prompt on standard input is too long")}
		}
		prompt = string(text)
	}
	req, err := f.request(prompt)
	if err != nil {
		return err
	}
	if f.file.name != "" {
		return a.generateWith(ctx, f, req, prompt)
	}
	frontend, done, err := a.attach(ctx)
	if err != nil {
		return a.endStream(f, err)
	}
	defer done()
	return a.generateOn(ctx, frontend, f, req)
}

// generateWith runs one request on a model file.
func (a *app) generateWith(ctx context.Context, f generateFlags, req shared.GenerateRequest, prompt string) error {
	slot, template, err := f.file.slot("file")
	if err != nil {
		return a.endStream(f, err)
	}
	if !template && f.system == "" {
		req.Messages, req.Prompt = nil, prompt // a base model continues text, and knows no roles
	}
	req.Requirement.SlotID = slot.SlotID
	return a.withSlot(ctx, slot, func(fe shared.Frontend) error { return a.generateOn(ctx, fe, f, req) })
}

// generateOn runs one request and prints its answer.
func (a *app) generateOn(ctx context.Context, frontend shared.Frontend, f generateFlags, req shared.GenerateRequest) error {
	m, all, err := a.stream(ctx, frontend, req, f)
	text := all.Text
	if !f.json && !f.ndjson && text != "" && !strings.HasSuffix(text, "\n") {
		if _, writeErr := io.WriteString(a.out, "\n"); err == nil {
			err = writeErr
		}
	}
	if err != nil {
		return a.endStream(f, err)
	}
	switch {
	case f.json:
		doc := toResultJSON(m)
		doc.Text, doc.Reasoning, doc.Logprobs = &text, all.Reasoning, toLogprobsJSON(all.Logprobs)
		err = a.printJSON(doc)
	case f.ndjson:
		doc := toResultJSON(m)
		doc.Type = "done"
		err = a.event(doc)
	}
	if f.phases {
		newBars(a.errOut).request(m)
	}
	return err
}

type chunkJSON struct {
	Type   string `json:"type"`
	SlotID string `json:"slot_id"`
	Text   string `json:"text"`

	Reasoning string `json:"reasoning,omitempty"`

	Logprobs []logprobJSON `json:"logprobs,omitempty"`
}

// stream runs the request, writing each chunk as it comes unless one document
// is wanted at the end. It also gives them all in one. What the model thinks goes
// to standard error, so that standard output has the answer alone.
func (a *app) stream(ctx context.Context, frontend shared.Frontend, req shared.GenerateRequest, f generateFlags) (shared.Measured, shared.Chunk, error) {
	var all, thought strings.Builder
	var probs []shared.TokenLogprob
	out := bufio.NewWriter(a.out)
	say := (&wrapper{out: out, width: f.width}).write
	wait := a.newWaiting()
	defer wait.clear()
	m, err := shared.GenerateAtEdge(ctx, frontend, time.Now(), req, func(c shared.Chunk) error {
		if c.Progress != nil {
			wait.show(c.SlotID, *c.Progress)
		}
		probs = append(probs, c.Logprobs...)
		if c.Text == "" && c.Reasoning == "" && len(c.Logprobs) == 0 {
			return nil
		}
		wait.clear()
		thinking := thought.Len() > 0 && all.Len() == 0
		thought.WriteString(c.Reasoning)
		switch {
		case f.json:
			all.WriteString(c.Text)
			return nil
		case f.ndjson:
			if err := writeEvent(out, chunkJSON{Type: "chunk", SlotID: c.SlotID, Text: c.Text, Reasoning: c.Reasoning, Logprobs: toLogprobsJSON(c.Logprobs)}); err != nil {
				return err
			}
			return out.Flush()
		}
		all.WriteString(c.Text)
		thoughts := c.Reasoning
		if c.Text != "" && (thinking || thoughts != "") {
			thoughts += "\n\n"
		}
		if _, err := io.WriteString(a.errOut, thoughts); err != nil {
			return err
		}
		if err := say(c.Text); err != nil {
			return err
		}
		return out.Flush()
	})
	return m, shared.Chunk{Text: all.String(), Reasoning: thought.String(), Logprobs: probs}, err
}

// endStream prints the terminal event of a request that failed. A pending answer
// is an answer: it is printed whatever the form.
func (a *app) endStream(f generateFlags, err error) error {
	switch pending := shared.KindOf(err) == shared.KindPending; {
	case f.ndjson:
		if printErr := a.event(toFailure(err, true)); printErr != nil {
			return printErr
		}
	case pending && !f.json:
		if printErr := a.printJSON(toFailure(err, false)); printErr != nil {
			return printErr
		}
	default:
		return err
	}
	return &silentError{err}
}

func (a *app) event(v any) error { return writeEvent(a.out, v) }

func writeEvent(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
