package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// fakeLauncher starts fakeWorkers and watches that the rules are kept.
type fakeLauncher struct {
	mu       sync.Mutex
	alive    map[string]*fakeProcess // by slot
	launches map[string]int
	broken   []string // rules that were broken

	// launch may delay or fail a start.
	launch func(ctx context.Context, slotID string, n int) error
	// devices are those of the machine; others are not there.
	devices map[string]shared.DeviceInfo
	// asked counts the descriptions of devices; describe may delay one.
	asked    map[string]int
	describe func(name string)
	// script prepares a new worker.
	script func(slotID string, n int, w *fakeWorker)
}

func newFakeLauncher() *fakeLauncher {
	return &fakeLauncher{alive: map[string]*fakeProcess{}, launches: map[string]int{}, asked: map[string]int{}}
}

func (l *fakeLauncher) rule(ok bool, text string) {
	if !ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.broken = append(l.broken, text)
	}
}

func (l *fakeLauncher) Launch(ctx context.Context, slotID, _ string, _ ...string) (Process, error) {
	l.mu.Lock()
	l.launches[slotID]++
	n := l.launches[slotID]
	launch, script, old := l.launch, l.script, l.alive[slotID]
	l.mu.Unlock()
	l.rule(old == nil, "two processes for slot "+slotID)
	if launch != nil {
		if err := launch(ctx, slotID, n); err != nil {
			return nil, err
		}
	}
	p := &fakeProcess{launcher: l, slotID: slotID, pid: 1000*n + 1, done: make(chan struct{})}
	p.worker = &fakeWorker{proc: p}
	if script != nil {
		script(slotID, n, p.worker)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive[slotID] = p
	return p, nil
}

func (l *fakeLauncher) Device(_ context.Context, name string) (shared.DeviceInfo, error) {
	l.mu.Lock()
	l.asked[name]++
	describe := l.describe
	l.mu.Unlock()
	if describe != nil {
		describe(name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	info, ok := l.devices[name]
	if !ok {
		return info, deviceError("there is no %s", name)
	}
	return info, nil
}

func (l *fakeLauncher) process(slotID string) *fakeProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive[slotID]
}

func (l *fakeLauncher) launched(slotID string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.launches[slotID]
}

// fakeProcess ends when it is told to.
type fakeProcess struct {
	launcher *fakeLauncher
	slotID   string
	pid      int
	worker   *fakeWorker
	once     sync.Once
	done     chan struct{}
	exit     ExitInfo
	cutOff   error // what Reachable says; guarded by the launcher's mutex
	// immortal makes it outlive every attempt to end it.
	immortal bool
	// slowWorker delays whoever asks for the worker.
	slowWorker time.Duration
}

func (p *fakeProcess) Worker() shared.Worker {
	if p.slowWorker > 0 {
		<-time.After(p.slowWorker)
	}
	return p.worker
}
func (p *fakeProcess) PID() int              { return p.pid }
func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Exit() ExitInfo        { return p.exit }

func (p *fakeProcess) Reachable() error {
	p.launcher.mu.Lock()
	defer p.launcher.mu.Unlock()
	return p.cutOff
}

func (p *fakeProcess) Kill() {
	if !p.immortal {
		p.die(ExitInfo{Code: -1, Signal: "killed"})
	}
}

func (p *fakeProcess) die(info ExitInfo) {
	p.once.Do(func() {
		p.exit = info
		p.launcher.mu.Lock()
		delete(p.launcher.alive, p.slotID)
		p.launcher.mu.Unlock()
		close(p.done)
	})
}

func (p *fakeProcess) Stop(ctx context.Context, drain time.Duration) {
	if p.immortal {
		<-ctx.Done()
		return
	}
	deadline := time.NewTimer(drain)
	defer deadline.Stop()
	select {
	case <-p.worker.idle():
	case <-deadline.C:
	case <-ctx.Done():
	case <-p.done:
	}
	p.die(ExitInfo{Signal: "killed"})
}
