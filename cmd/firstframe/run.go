package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// runContext is the context of a chat unless the model was trained on less.
const runContext = 4096

type runFlags struct {
	contextTokens int
	threads       int
	chat          chatSettings
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] MODEL.gguf [PROMPT]",
		Short: "Chat with a model file, without a configuration",
		Long: "Chat with a model file in the terminal: one slot with default settings in a supervisor of its own, which\n" +
			"ends with the chat. Each answer is followed by its phases. With PROMPT there is one answer and no chat;\n" +
			"when standard input is no terminal, each of its lines is one message.",
		Example: "  firstframe run model.gguf\n  firstframe run --system \"Answer briefly.\" model.gguf \"What is a lease?\"",
		Args:    usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.contextTokens < 0 || f.threads < 0 || f.chat.maxTokens < 0 {
				return &usageError{errors.New("--context, --threads and --max-tokens cannot be negative")}
			}
			return a.runModel(cmd.Context(), f, args[0], strings.Join(args[1:], ""))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.contextTokens, "context", 0, fmt.Sprintf("tokens of context (0: %d, or what the model was trained on)", runContext))
	flags.IntVar(&f.threads, "threads", 0, "threads of the engine (0: one for each core)")
	flags.StringVar(&f.chat.system, "system", "", "system message before the chat")
	flags.IntVar(&f.chat.maxTokens, "max-tokens", 0, "most tokens of an answer (0: until the context is full)")
	flags.Float32Var(&f.chat.sampling.Temperature, "temperature", 0.7, "sampling temperature (0: greedy)")
	flags.Float32Var(&f.chat.sampling.TopP, "top-p", 0.95, "sample from the likeliest tokens that reach p together (0: all)")
	flags.Uint32Var(&f.chat.sampling.Seed, "seed", 0, "seed for sampling (0: random)")
	return cmd
}

// runModel chats with one file, or asks it one thing.
func (a *app) runModel(ctx context.Context, f runFlags, file, prompt string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	header, err := gguf.ReadFile(path)
	if err != nil {
		return err
	}
	if f.contextTokens == 0 {
		f.contextTokens = runContext
		if trained := header.TrainedTokens(); trained > 0 {
			f.contextTokens = min(trained, runContext)
		}
	}
	if f.threads == 0 {
		f.threads = runtime.NumCPU()
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	slot := ownSlot("run", name, path, shared.TransferAuto, f.threads)
	slot.ContextTokens = f.contextTokens
	slot.Preload = true
	f.chat.template = header.ChatTemplate() != ""
	return withTempDir(func(dir string) error {
		return a.withStack(ctx, filepath.Join(dir, "s"), []shared.SlotSpec{slot}, func(fe shared.Frontend) error {
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
	})
}
