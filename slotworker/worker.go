package slotworker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Config is what a worker needs from its process.
type Config struct {
	// Engine opens the inference library. It is called at the first prefetch,
	// and again after it failed.
	Engine func() (Engine, error)
	// Device opens a device apart from the CPU; nil means that this program can use
	// none. It is called at the first prefetch of a slot on one.
	Device func(name string) (Device, error)
	// Lost is told that the device is lost, after which the process is of no use;
	// nil means that nobody is. It is called from the goroutine that found out.
	Lost func(error)
	// StateDir is the worker's own folder; canary references are kept in it.
	StateDir string
	// Version is the program's version, for Describe.
	Version string
	// Queue is how many requests may wait for a sequence; 0 means DefaultQueue.
	Queue int
	// Deadline is that of a request without one; 0 means DefaultDeadline.
	Deadline time.Duration
	// Logger gets what no caller is told; nil means nothing is logged.
	Logger hclog.Logger
}

// Defaults of Config.
const (
	DefaultQueue    = 64
	DefaultDeadline = 5 * time.Minute
)

// Validate reports what is missing.
func (c Config) Validate() error {
	switch {
	case c.Engine == nil:
		return shared.Errorf(shared.KindConfig, "the worker has no engine")
	case c.StateDir == "":
		return shared.Errorf(shared.KindConfig, "the worker has no state directory")
	case c.Queue < 0 || c.Deadline < 0:
		return shared.Errorf(shared.KindConfig, "the worker's queue and deadline cannot be negative")
	default:
		return nil
	}
}

// Worker owns one slot's buffers and runs its requests.
type Worker struct {
	cfg      Config
	owner    *owner
	progress atomic.Uint64 // grows with each sign that work goes on
	info     atomic.Pointer[EngineInfo]

	// engine, device, checked and kept belong to the one prefetch, activation or
	// eviction that the owner has let in.
	engine  Engine
	device  *slotDevice        // nil on the CPU
	checked map[string]bool    // model revisions whose weights were looked through
	passed  map[string]float32 // canaries that this process has run whole, by their files
	kept    keptPages

	// Preparations end when the worker drains, requests at the drain's deadline.
	preparations  sync.WaitGroup
	preparing     context.Context
	endPreparing  context.CancelCauseFunc
	generating    context.Context
	endGenerating context.CancelCauseFunc
}

var _ shared.Worker = (*Worker)(nil)

// New makes a worker with an empty slot. Close ends it.
func New(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Queue == 0 {
		cfg.Queue = DefaultQueue
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the worker's state directory: %w", err)
	}
	w := &Worker{cfg: cfg, owner: newOwner(), checked: map[string]bool{}, passed: map[string]float32{}}
	w.preparing, w.endPreparing = context.WithCancelCause(context.Background())
	w.generating, w.endGenerating = context.WithCancelCause(context.Background())
	return w, nil
}

// Describe says what this process is. The engine's fields are empty until it was opened.
func (w *Worker) Describe(context.Context) (shared.WorkerInfo, error) {
	info := shared.WorkerInfo{PID: os.Getpid(), Version: w.cfg.Version}
	if e := w.info.Load(); e != nil {
		info.Engine, info.CPUVariant = e.Version, e.CPUVariant
	}
	return info, nil
}

// Heartbeat tells that the process lives, and whether its work goes on.
func (w *Worker) Heartbeat(context.Context) (shared.HeartbeatResult, error) {
	res := shared.HeartbeatResult{Progress: w.progress.Load()}
	res.Running, res.Waiting = w.owner.mirror.Load().load()
	return res, nil
}

// Status is the worker's account of its slot.
func (w *Worker) Status(context.Context) (shared.WorkerStatus, error) {
	m := w.owner.mirror.Load()
	status := shared.WorkerStatus{
		SlotID:      m.slotID,
		Status:      m.status,
		Identity:    m.identity,
		HostBytes:   m.hostBytes,
		DeviceBytes: m.deviceBytes,
		Pinned:      m.pinned,
	}
	if m.scheduler != nil {
		status.SequencesRunning, status.SequencesWaiting = m.load()
		status.KVTokensUsed, status.KVTokensTotal = m.scheduler.kvUse()
		status.Pages = m.scheduler.pageStats()
		status.DeviceBytes += m.embedder.bytes.Load()
	} else {
		status.Pages = w.kept.stats()
	}
	if status.Status == shared.SlotResident && status.SequencesRunning > 0 {
		status.Status = shared.SlotActive
	}
	return status, nil
}

// Evict frees the device buffers, and with dropHost the host buffer and the
// context pages in host memory too. It waits until nobody uses them; when ctx ends first, the slot stays as it is.
func (w *Worker) Evict(ctx context.Context, dropHost bool) (shared.EvictWorkerResult, error) {
	var idle <-chan struct{}
	var err error
	if askErr := w.owner.ask(func(s *slotState) { idle, err = s.beginEvict() }); askErr != nil {
		return shared.EvictWorkerResult{}, askErr
	}
	if err != nil {
		return shared.EvictWorkerResult{}, err
	}
	select {
	case <-idle:
	case <-ctx.Done():
		err := shared.Errorf(shared.KindBusy, "cannot evict: the slot is still in use: %w", context.Cause(ctx))
		return shared.EvictWorkerResult{}, firstError(w.owner.ask((*slotState).endEvict), err)
	}
	var r *resident
	var host *hostBuffer
	if err := w.owner.ask(func(s *slotState) { r, host = s.takeEvicted(dropHost) }); err != nil {
		return shared.EvictWorkerResult{}, err
	}
	var res shared.EvictWorkerResult
	if r != nil {
		res.DeviceBytesFreed = r.deviceBytes + r.embedder.bytes.Load()
		r.closeContexts()
		var kept bool
		if err = w.owner.ask(func(s *slotState) { kept = s.keepModel(r.model) }); !kept {
			r.model.Close()
		}
	}
	if dropHost {
		closing, cancel := context.WithTimeout(ctx, pagesWait)
		err = errors.Join(err, w.kept.close(closing))
		cancel()
	}
	if host != nil {
		res.HostBytesFreed = host.size()
		err = errors.Join(err, host.release())
	}
	return res, firstError(err, w.owner.ask((*slotState).endEvict))
}

// Drain ends the worker's work for good: preparations at once, requests when
// they are done or at the deadline.
func (w *Worker) Drain(ctx context.Context, deadline time.Duration) (int, error) {
	var idle <-chan struct{}
	if err := w.owner.ask(func(s *slotState) { s.draining = true; idle = s.whenIdle() }); err != nil {
		return 0, err
	}
	ending := shared.Errorf(shared.KindShuttingDown, "the worker is ending")
	w.endPreparing(ending)
	late := time.NewTimer(deadline)
	defer late.Stop()
	select {
	case <-idle:
		return 0, w.flushPages(ctx)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-late.C:
	}
	var left int
	if err := w.owner.ask(func(s *slotState) { left = s.users }); err != nil {
		return 0, err
	}
	w.endGenerating(ending)
	select {
	case <-idle:
		return left, w.flushPages(ctx)
	case <-ctx.Done():
		return left, context.Cause(ctx)
	}
}

// flushPages moves context pages down and waits until all are on disk, where the
// slot has a disk tier.
func (w *Worker) flushPages(ctx context.Context) error {
	var r *resident
	if err := w.owner.ask(func(s *slotState) { r = s.resident }); err != nil || r == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pagesWait)
	defer cancel()
	return r.scheduler.flushPages(ctx)
}

// Close drains without patience, frees everything and ends the owner. The
// worker is of no use afterwards.
func (w *Worker) Close() error {
	_, err := w.Drain(context.Background(), 0)
	if err != nil {
		return err
	}
	w.preparations.Wait()
	_, err = w.Evict(context.Background(), true)
	err = errors.Join(err, w.device.close())
	close(w.owner.quit)
	<-w.owner.done
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
