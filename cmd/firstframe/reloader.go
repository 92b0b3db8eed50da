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
// files change. What comes of it the supervisor writes to its log.
type reloader struct {
	frontend shared.Frontend
	log      hclog.Logger
	watcher  *hcl.Watcher // nil where files cannot be watched
}

// start returns what ends it.
func (r reloader) start(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-hangup:
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
