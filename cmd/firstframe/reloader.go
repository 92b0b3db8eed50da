package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
)

// reloader has the configuration of serve applied again: on SIGHUP, and when its
// files change. What comes of it the supervisor writes to its log. A SIGHUP that
// comes because the terminal has gone is no such wish: it ends serve.
type reloader struct {
	frontend shared.Frontend
	log      hclog.Logger
	watcher  *hcl.Watcher // nil where files cannot be watched
	end      func()       // of serve
}

// start returns what ends it.
func (r reloader) start(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	inTerminal := hasTerminal()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-hangup:
				if inTerminal && !hasTerminal() {
					r.log.Info("the terminal has gone")
					r.end()
					return
				}
				r.reload(ctx, "SIGHUP")
			case <-ctx.Done():
				return
			}
		}
	})
	if r.watcher != nil {
		running.Go(func() {
			if err := r.watcher.Run(ctx, func() { r.reload(ctx, "file changed") }); err != nil {
				r.log.Warn("changes of the configuration are not noticed any more; use firstframe reload", "error", err)
			}
		})
	}
	return func() {
		cancel()
		signal.Stop(hangup)
		running.Wait()
	}
}

func (r reloader) reload(ctx context.Context, cause string) {
	r.log.Info("reading the configuration again", "cause", cause)
	_, _ = r.frontend.Reload(ctx) // the supervisor tells its log what comes of it
}

// hasTerminal reports whether the process belongs to a terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
