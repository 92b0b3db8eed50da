package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// breakable is a supervisor whose first slot can be harmed, on a bubble's clock.
type breakable struct {
	*fakeFrontend
	mu      sync.Mutex
	changed chan struct{} // closed at each change
	stopped bool
	harms   []string

	watchful bool // notices stopped workers and lost sockets
	hopeless bool // does not start a worker again by itself
	fragile  bool // fails requests while nothing can be written
	full     bool
	during   func(harm string) // runs when harm is done
}

func newBreakable() *breakable {
	return &breakable{fakeFrontend: newFake(), changed: make(chan struct{})}
}

func (b *breakable) change(f func(s *shared.SlotInfo)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.slots[0])
	close(b.changed)
	b.changed = make(chan struct{})
}

// die is the end of a worker, and the start of the next unless nobody starts it.
func (b *breakable) die() {
	b.change(func(s *shared.SlotInfo) { s.Status, s.Process, s.PID = shared.SlotEmpty, shared.ProcessBackoff, 0 })
	if !b.hopeless {
		time.AfterFunc(900*time.Millisecond, b.start)
	}
}

func (b *breakable) start() {
	b.change(func(s *shared.SlotInfo) {
		s.Restarts++
		s.Status, s.Process, s.PID = shared.SlotResident, shared.ProcessUp, 5000+s.Restarts
		b.stopped = false
	})
}

func (b *breakable) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

func (b *breakable) list() (shared.SlotList, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return shared.SlotList{Slots: append([]shared.SlotInfo(nil), b.slots...)}, b.changed
}

func (b *breakable) ListSlots(context.Context) (shared.SlotList, error) {
	l, _ := b.list()
	return l, nil
}

func (b *breakable) WatchSlots(ctx context.Context, changed func(shared.SlotList) error) error {
	for {
		l, next := b.list()
		if err := changed(l); err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *breakable) Restart(context.Context, string) (shared.SlotInfo, error) {
	time.Sleep(200 * time.Millisecond)
	b.start()
	l, _ := b.list()
	return l.Slots[0], nil
}

func (b *breakable) Generate(ctx context.Context, _ shared.GenerateRequest, _ func(shared.Chunk) error) (shared.Result, error) {
	l, next := b.list()
	for !l.Slots[0].Status.Ready() || b.isStopped() {
		select {
		case <-next:
			l, next = b.list()
		case <-ctx.Done():
			return shared.Result{}, ctx.Err()
		}
	}
	time.Sleep(5 * time.Millisecond)
	if b.full && b.fragile {
		return shared.Result{}, errors.New("no space left")
	}
	return shared.Result{}, ctx.Err()
}

// target is the worker of a breakable.
type target struct {
	b   *breakable
	pid int
}

func (v target) PID() int { return v.pid }

func (v target) did(harm string) {
	v.b.harms = append(v.b.harms, harm)
	if v.b.during != nil {
		v.b.during(harm)
	}
}

func (v target) Signal(sig syscall.Signal) error {
	if l, _ := v.b.list(); l.Slots[0].PID != v.pid {
		return shared.Errorf(shared.KindWorkerLost, "it has ended")
	}
	v.did(sig.String())
	switch sig {
	case syscall.SIGKILL:
		time.AfterFunc(20*time.Millisecond, v.b.die)
	case syscall.SIGSTOP:
		v.b.change(func(*shared.SlotInfo) { v.b.stopped = true })
		if v.b.watchful {
			time.AfterFunc(2*time.Second, v.b.die)
		}
	case syscall.SIGCONT:
		v.b.change(func(*shared.SlotInfo) { v.b.stopped = false })
	}
	return nil
}

func (v target) RemoveSocket() error {
	v.did("socket")
	if v.b.watchful {
		time.AfterFunc(time.Second, v.b.die)
	}
	return nil
}

// drilled runs the drill on a breakable slot inside a bubble.
func drilled(t *testing.T, b *breakable, o drillOptions) (r ran) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.changed = make(chan struct{}) // belongs to this bubble
		if hook := b.during; hook != nil {
			b.during = func(harm string) {
				if hook(harm); harm == "interrupt" {
					cancel()
				}
			}
		}
		var stdout, stderr bytes.Buffer
		a := &app{out: &stdout, errOut: &stderr}
		d := &drill{
			frontend: b, slot: demoQ8, within: 10 * time.Second, progress: a.progressf,
			find: func(_ string, pid int) (victim, error) { return target{b, pid}, nil },
			fillDisk: func(int) (func() error, error) {
				b.full = true
				return func() error { b.full = false; return nil }, nil
			},
		}
		err := a.runDrill(ctx, d, o)
		var silent *silentError
		if err != nil && !errors.As(err, &silent) {
			fmt.Fprintln(&stderr, err)
		}
		r = ran{exitCode(ctx, err), stdout.String(), stderr.String()}
		l, _ := b.list()
		if s := l.Slots[0]; !s.Status.Ready() || b.isStopped() || b.full {
			t.Errorf("the drill leaves the slot as %s, stopped %v, without room %v", s.Status, b.stopped, b.full)
		}
	})
	return r
}

func TestDrill(t *testing.T) {
	tests := []struct {
		golden string
		set    func(*breakable)
		json   bool
		code   int
	}{
		{"drill.txt", func(b *breakable) { b.watchful = true }, false, exitOK},
		{"drill.json", func(b *breakable) { b.watchful = true }, true, exitOK},
		{"drill-blind.txt", func(*breakable) {}, false, exitFailed},
		{"drill-blind.json", func(*breakable) {}, true, exitFailed},
		{"drill-hopeless.txt", func(b *breakable) { b.watchful, b.hopeless, b.fragile = true, true, true }, false, exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.golden, func(t *testing.T) {
			b := newBreakable()
			tt.set(b)
			r := drilled(t, b, drillOptions{json: tt.json})
			if r.code != tt.code {
				t.Errorf("exit code %d instead of %d", r.code, tt.code)
			}
			page := r.stdout
			if tt.json {
				wantJSON(t, page, false)
			} else {
				page += "--- standard error\n" + r.stderr
			}
			golden(t, tt.golden, page)
		})
	}
}

func TestDrillLeavesRunningRequestsAlone(t *testing.T) {
	b := newBreakable()
	b.slots[0].InFlight = 2
	if r := drilled(t, b, drillOptions{}); r.code != exitFailed || !strings.Contains(r.stderr, "2 requests are running") || len(b.harms) != 0 {
		t.Errorf("exit %d, harm done: %v; %s", r.code, b.harms, r.stderr)
	}
	b.watchful = true
	if r := drilled(t, b, drillOptions{yes: true}); r.code != exitOK || len(b.harms) == 0 {
		t.Errorf("with --yes: exit %d, harm done: %v; %s", r.code, b.harms, r.stderr)
	}
}

// Whenever the drill is interrupted, the slot is looked after first.
func TestInterruptedDrillRepairs(t *testing.T) {
	for _, when := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		b := newBreakable()
		b.hopeless = when == syscall.SIGKILL
		b.during = func(harm string) {
			if harm == when.String() {
				time.AfterFunc(100*time.Millisecond, func() { b.during("interrupt") })
			}
		}
		if r := drilled(t, b, drillOptions{}); r.code != exitInterrupted {
			t.Errorf("exit code %d: %s", r.code, r.stderr)
		}
	}
}
