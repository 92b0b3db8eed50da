package main

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
)

type runFlags struct {
	file   modelFile
	chat   chatSettings
	serve  bool
	listen string
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:         "run [flags] MODEL.gguf [PROMPT]",
		Annotations: map[string]string{supervises: ""},
		Short:       "Chat with a model file, without a configuration",
		Long: "Chat with a model file in the terminal: one slot with default settings in a supervisor of its own, which\n" +
			"ends with the chat. Each answer is followed by its phases. With PROMPT there is one answer and no chat;\n" +
			"when standard input is no terminal, each of its lines is one message. MODEL.gguf may also be a name in a local store:\n" +
			"ollama:MODEL:TAG or hf:ORG/REPO/FILE.gguf. With --serve the same slot answers HTTP instead, until Ctrl-C.",
		Example: "  firstframe run model.gguf\n  firstframe run --serve model.gguf\n  firstframe run ollama:llama3.2:1b\n  firstframe run --system \"Answer briefly.\" model.gguf \"What is a lease?\"",
		Args:    usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.file.check(); err != nil {
				return err
			}
			if f.chat.maxTokens < 0 {
				return &usageError{errors.New("--max-tokens cannot be negative")}
			}
			f.file.name = args[0]
			if f.serve {
				unused := chosen(cmd.Flags(), "system", "max-tokens", "temperature", "top-p", "seed")
				if len(args) > 1 {
					unused = append(unused, "the prompt")
				}
				return a.runServer(cmd.Context(), f, unused)
			}
			if cmd.Flags().Changed("listen") {
				return &usageError{errors.New("--listen needs --serve")}
			}
			return a.runModel(cmd.Context(), f, strings.Join(args[1:], ""))
		},
	}
	flags := cmd.Flags()
	f.file.register(flags)
	flags.BoolVar(&f.serve, "serve", false, "answer HTTP clients of OpenAI, Anthropic and Ollama instead of a chat")
	flags.StringVar(&f.listen, "listen", shared.DefaultListen, "with --serve: address on loopback; port 0 takes a free one")
	flags.StringVar(&f.chat.system, "system", "", "system message before the chat")
	flags.IntVar(&f.chat.maxTokens, "max-tokens", 0, "most tokens of an answer (0: until the context is full)")
	flags.Float32Var(&f.chat.sampling.Temperature, "temperature", 0.7, "sampling temperature (0: greedy)")
	flags.Float32Var(&f.chat.sampling.TopP, "top-p", 0.95, "sample from the likeliest tokens that reach p together (0: all)")
	flags.Uint32Var(&f.chat.sampling.Seed, "seed", 0, "seed for sampling (0: random)")
	return cmd
}

// runModel chats with one file, or asks it one thing.
func (a *app) runModel(ctx context.Context, f runFlags, prompt string) error {
	slot, template, err := f.file.slot("run")
	if err != nil {
		return err
	}
	f.chat.template = template
	return a.withSlot(ctx, slot, func(fe shared.Frontend) error {
		c := newChat(a, fe, slot.SlotID, f.chat)
		if c.lines.interactive() {
			// Ctrl-C ends an answer, not the chat.
			var stop context.CancelFunc
			ctx, stop = signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
			defer stop()
		}
		if prompt != "" {
			return c.answer(ctx, prompt)
		}
		return c.run(ctx)
	})
}
