// Command firstframe serves local language models from prepared slots and says
// where the time to the first chunk goes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/firstframe/firstframe/shared/timerslack"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, the second one is not caught.
	context.AfterFunc(ctx, stop)
	// A reader that leaves, as head does, is an error of a write and ends the
	// program in order; the default would leave workers' files behind.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{out: os.Stdout, errOut: os.Stderr, in: os.Stdin, settle: timerslack.Enter}
	return a.run(ctx, os.Args[1:])
}
