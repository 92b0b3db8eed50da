package supervisor

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// drainMargin is how much later than its deadline a drain may answer.
const drainMargin = 500 * time.Millisecond

// drainBeat is the time between two looks at a worker that drains.
const drainBeat = 250 * time.Millisecond

// Stop drains the worker, then asks it to end, then kills it.
func (p *workerProcess) Stop(ctx context.Context, drain time.Duration) {
	if drain > 0 {
		p.drain(ctx, drain)
	}
	p.endPolitely()
	grace := time.NewTimer(p.launcher.cfg.StopGrace)
	defer grace.Stop()
	select {
	case <-p.done:
		return
	case <-grace.C:
	case <-ctx.Done():
	}
	p.kill()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
}

// drain lets running requests end. One that is not getting anywhere is given up
// before its time.
func (p *workerProcess) drain(ctx context.Context, deadline time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, deadline+drainMargin)
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		p.awaitStall(ctx)
		cancel()
	})
	cancelled, err := p.worker.Drain(ctx, deadline)
	cancel()
	watch.Wait()
	switch {
	case err != nil:
		p.launcher.log.Warn("worker did not drain", "slot", p.slotID, "pid", p.PID(), "error", err)
	case cancelled > 0:
		p.launcher.log.Info("requests cancelled at the end of the drain", "slot", p.slotID, "count", cancelled)
	}
}

// awaitStall returns when a draining worker does not answer, when its requests
// have stood still for too long, or with ctx.
func (p *workerProcess) awaitStall(ctx context.Context) {
	var progress uint64
	moved := time.Now()
	beat := time.NewTicker(drainBeat)
	defer beat.Stop()
	for {
		asked, stop := context.WithTimeout(ctx, heartbeatPatience)
		res, err := p.worker.Heartbeat(asked)
		stop()
		if err != nil {
			return
		}
		if res.Progress != progress || res.Running+res.Waiting == 0 {
			progress, moved = res.Progress, time.Now()
		} else if time.Since(moved) > p.launcher.cfg.StallPatience {
			return
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// endPolitely has go-plugin tell the worker to end. Its Kill has no deadline of
// its own: with a worker that does not answer it returns once that is killed.
func (p *workerProcess) endPolitely() {
	p.politely.Do(func() {
		go func() {
			defer close(p.polite)
			p.client.Kill()
		}()
	})
}

// Kill ends the process at once.
func (p *workerProcess) Kill() { p.kill() }

// kill ends the process and its group at once, and prevents a start to come.
func (p *workerProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = true
	if p.pid != 0 && !p.reaped {
		p.signalGroup()
	}
}

// signalGroup is called with mu held.
func (p *workerProcess) signalGroup() {
	err := syscall.Kill(-p.pid, syscall.SIGKILL)
	// A group without members is gone already.
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		p.launcher.log.Warn("cannot kill a worker's group", "slot", p.slotID, "pid", p.pid, "error", err)
	}
}
