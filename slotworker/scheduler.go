package slotworker

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/slotworker/pages"
)

// schedulerConfig is what a scheduler is made of.
type schedulerConfig struct {
	model    Model
	context  ContextConfig
	chunk    int     // most prompt tokens in one step
	queue    int     // most requests that wait for a sequence
	sample   []int32 // tokens to try the engine with
	cold     bool    // nothing else warms it up before the first request
	pages    pagesConfig
	kept     *keptPages     // where the store of the pages is kept
	progress *atomic.Uint64 // grows with each engine step
	logger   hclog.Logger
	failed   func(error) // is told of the engine's errors, before their requests are
}

// scheduler runs requests on one context. Its goroutine is the only one that
// touches the context, and is locked to its OS thread for that.
type scheduler struct {
	cfg   schedulerConfig
	began time.Time // when the beat of its answers began
	inbox chan *request
	flush chan chan struct{}
	stop  chan struct{}
	done  chan struct{}

	inSystem atomic.Int64 // requests submitted and not ended
	running  atomic.Int64 // requests that have a sequence
	kvTokens atomic.Int64 // positions that running requests fill
	idle     atomic.Int64 // positions that idle sequences still fill
	counted  atomic.Int64 // positions by the engine's own count
	whole    atomic.Int64 // full pages among them
	usable   atomic.Int64 // sequences that are not dirty

	// Set before start returns.
	deviceBytes int64
	hostBytes   int64
	warmed      time.Duration
	store       *pages.Store
	layout      pages.Layout // of this context's states

	// Only the scheduler's goroutine.
	engine    Context
	sequences []*sequence
	admitted  []*sequence // those with a request, in order of admission
	waiting   []*request
	rows      []Row
	takes     []take
	fresh     []*request // requests whose first chunk this step put
	following []*request // requests that wait for pages which another one computes
	flights   *pages.Inflight
	device    *pages.Device // what idle sequences hold
	lastID    pages.RequestID
	blob      []byte // one state on its way in or out
}

// startScheduler makes the context and warms it up when it is cold. The model must outlive the scheduler.
func startScheduler(cfg schedulerConfig) (*scheduler, error) {
	limit := cfg.context.Sequences + cfg.queue
	s := &scheduler{
		cfg:   cfg,
		began: time.Now(),
		inbox: make(chan *request, limit),
		flush: make(chan chan struct{}),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),

		device: pages.NewDevice(cfg.context.Sequences, max(1, cfg.pages.page), cfg.pages.exact),
	}
	for i := range cfg.context.Sequences {
		s.sequences = append(s.sequences, &sequence{id: int32(i)})
	}
	s.usable.Store(int64(len(s.sequences)))
	started := make(chan error, 1)
	go s.run(started)
	if err := <-started; err != nil {
		<-s.done
		return nil, err
	}
	return s, nil
}

// submit gives a request to the scheduler. After an error the request is still the caller's.
func (s *scheduler) submit(r *request) error {
	if s.usable.Load() == 0 {
		return shared.Errorf(shared.KindEngine, "no sequence of the slot can be used any more: it has to be evicted and prepared again")
	}
	if n := s.inSystem.Add(1); n > int64(cap(s.inbox)) {
		s.inSystem.Add(-1)
		return shared.Errorf(shared.KindBusy, "the slot's queue is full: %d requests run or wait", n-1)
	}
	s.inbox <- r // has room: it holds as many as may be in the system
	return nil
}

// kvUse is how many positions of the KV memory are filled, and how many there are.
func (s *scheduler) kvUse() (used, total int64) {
	return s.kvTokens.Load(), int64(s.cfg.context.TokensPerSequence) * int64(s.cfg.context.Sequences)
}

// pagesWait bounds how long the end of a scheduler or a drain waits for pages to
// reach the disk.
const pagesWait = 10 * time.Second

// close ends all requests, moves the pages down, to disk where there is a disk
// tier, frees the context, and waits for all that. The store stays open.
func (s *scheduler) close() {
	close(s.stop)
	<-s.done
	ctx, cancel := context.WithTimeout(context.Background(), pagesWait)
	defer cancel()
	if err := s.store.Flush(ctx); err != nil {
		s.cfg.logger.Error("context pages were not moved to disk", "error", err)
	}
}

// flushPages moves down what idle sequences hold and waits until it is on disk,
// where there is a disk tier.
func (s *scheduler) flushPages(ctx context.Context) error {
	moved := make(chan struct{})
	select {
	case s.flush <- moved:
		<-moved
	case <-s.done: // it has moved everything down
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.store.Flush(ctx)
}

func (s *scheduler) run(started chan<- error) {
	defer close(s.done)
	// The thread is given back, not ended: the end of a thread runs destructors
	// of native code, and in a build without cgo that crashes the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	engine, err := s.cfg.model.NewContext(s.cfg.context)
	if err != nil {
		started <- err
		return
	}
	defer engine.Close()
	s.engine = engine
	s.deviceBytes, s.hostBytes = engine.DeviceBytes(), engine.HostBytes()
	begin := time.Now()
	if s.cfg.cold {
		if err := s.warmUp(); err != nil {
			started <- err
			return
		}
	}
	if err := s.openPages(); err != nil {
		started <- err
		return
	}
	s.warmed = time.Since(begin)
	started <- nil
	for s.intake() {
		s.dropGone()
		s.admit()
		s.step()
	}
	s.endAll()
}

// warmRows is how many tokens the warm-up prefills: enough for the kernels of
// matrices. A whole chunk would touch more of the compute buffers, which is some
// thousand page faults, but costs as much as a long prompt.
const warmRows = 4

// warmUp runs a short prefill and one decode step, so that the first request does
// not pay for first touches of the weights.
func (s *scheduler) warmUp() error {
	n := min(warmRows, s.cfg.chunk, s.cfg.context.TokensPerSequence-1)
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{Token: s.cfg.sample[i%len(s.cfg.sample)], Pos: int32(i)}
	}
	rows[n-1].Logits = true
	if err := s.engine.Decode(rows); err != nil {
		return shared.Errorf(shared.KindEngine, "the warm-up's prefill failed: %w", err)
	}
	s.cfg.progress.Add(1)
	if err := s.engine.Decode([]Row{{Token: s.cfg.sample[0], Pos: int32(n), Logits: true}}); err != nil {
		return shared.Errorf(shared.KindEngine, "the warm-up's decode failed: %w", err)
	}
	s.cfg.progress.Add(1)
	if !finite(s.engine.Logits(0)) {
		return shared.Errorf(shared.KindModelFile, "the model computes values that are not numbers")
	}
	if !s.engine.SeqRemove(0, 0, -1) || s.engine.SeqTokens(0) != 0 {
		return shared.Errorf(shared.KindEngine, "the KV memory could not be cleared after the warm-up")
	}
	return nil
}

func finite(values []float32) bool {
	for _, v := range values {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// intake takes in what was submitted. It waits only while there is nothing to
// do, and is false once the scheduler is to end.
func (s *scheduler) intake() bool {
	if len(s.admitted) == 0 && len(s.waiting) == 0 {
		select {
		case r := <-s.inbox:
			s.waiting = append(s.waiting, r)
		case moved := <-s.flush:
			s.moveDown()
			close(moved)
		case <-s.stop:
			return false
		}
	}
	for {
		select {
		case r := <-s.inbox:
			s.waiting = append(s.waiting, r)
		case moved := <-s.flush:
			s.moveDown()
			close(moved)
		case <-s.stop:
			return false
		default:
			return true
		}
	}
}

// step computes one batch and hands out what it gave.
func (s *scheduler) step() {
	s.rows, s.takes = plan(s.admitted, s.cfg.chunk, s.cfg.pages.chunkPage(), s.rows[:0], s.takes[:0])
	if len(s.rows) == 0 {
		return
	}
	err := s.engine.Decode(s.rows)
	s.cfg.progress.Add(1)
	if err != nil {
		s.failStep(err)
		return
	}
	decoded := time.Now()
	var prefilled *request // at most one a step
	var at *sequence
	for _, t := range s.takes {
		r := t.seq.req
		if t.seq.prefilling() {
			prefilled, at = r, t.seq
			if r.pages != nil {
				s.cfg.kept.prefilled.Add(int64(t.count))
			}
		} else if r.pages != nil {
			r.pages.Append(s.rows[t.logits].Token)
		}
		t.seq.filled += t.count
		s.kvTokens.Add(int64(t.count))
		s.note(t.seq, t.seq.filled) // until the engine is asked at the end
		if t.logits >= 0 {
			s.deliver(t, decoded)
		}
	}
	s.letFirstChunksOut()
	if prefilled != nil && at.req == prefilled {
		// After the first chunk has left: whoever waits for the pages waits
		// longer than whoever waits for a token.
		s.keep(at)
		if !at.prefilling() {
			s.land(prefilled)
		}
	}
}

// deliver samples a sequence's next token and hands on the text that it completes.
func (s *scheduler) deliver(t take, decoded time.Time) {
	seq, r := t.seq, t.seq.req
	if seq.answer == 0 {
		r.stamps.prefilled = decoded
	}
	token, err := s.sample(r, t.logits)
	if err != nil {
		s.release(seq, outcome{err: err})
		return
	}
	if r.logprobs && (r.ignoreEOS || !s.cfg.model.IsEOG(token)) {
		seq.probs = append(seq.probs, logprob(s.cfg.model, s.engine.Logits(t.logits), token, r.top))
	}
	c, finish := seq.accepted(token, s.cfg.model, s.cfg.context.TokensPerSequence)
	if c.Text != "" || len(c.Tokens) > 0 {
		r.box.put(c)
	}
	if finish != "" {
		s.release(seq, outcome{result: seq.result(finish)})
		return
	}
	if c.Phases != nil {
		s.fresh = append(s.fresh, r)
	}
}

// failStep ends the requests that had rows in a failed batch: what the batch
// has left in their KV memory is not known. All others go on.
func (s *scheduler) failStep(err error) {
	s.cfg.failed(err)
	s.cfg.logger.Error("an engine step failed", "error", err, "rows", len(s.rows), "requests", len(s.takes))
	for _, t := range s.takes {
		s.lose(t.seq, shared.Errorf(shared.KindEngine, "the engine step failed: %w", err))
	}
}
