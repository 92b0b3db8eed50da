package slotworker

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/firstframe/firstframe/shared"
)

// embedChunk is how many tokens are computed in one step. The engine also makes
// logits for each, whose memory grows with it.
const embedChunk = 64

// embedMinimum is the least size of the embedder's context; it is made anew when
// a text needs a larger one.
const embedMinimum = 512

// embedder computes vectors in a context of its own, made when first needed, so
// that generation keeps its memory, its batches and its numbers. Its goroutine is
// the only one that touches the context, and is locked to its thread for that.
type embedder struct {
	model    Model
	config   ContextConfig // for generating; the embedder's own is made from it
	queue    int64
	progress *atomic.Uint64 // grows with each engine step
	failed   func(error)    // is told of the engine's errors
	jobs     chan *embedJob
	stop     chan struct{}
	done     chan struct{}
	waiting  atomic.Int64 // jobs that run or wait
	bytes    atomic.Int64 // of the context that is open

	// Only the goroutine.
	context Context
	size    int
}

// embedJob is one call.
type embedJob struct {
	ctx     context.Context
	texts   [][]int32
	pooling string
	vectors [][]float32
	err     error
	ended   chan struct{}
}

func startEmbedder(model Model, cfg ContextConfig, queue int, progress *atomic.Uint64, failed func(error)) *embedder {
	e := &embedder{
		model: model, config: cfg, queue: int64(queue) + 1, progress: progress, failed: failed,
		jobs: make(chan *embedJob), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go e.loop()
	return e
}

func (e *embedder) close() {
	close(e.stop)
	<-e.done
}

// run hands a job in and waits for its end.
func (e *embedder) run(ctx context.Context, j *embedJob) ([][]float32, error) {
	defer e.waiting.Add(-1)
	if n := e.waiting.Add(1); n > e.queue {
		return nil, shared.Errorf(shared.KindBusy, "the slot's queue for embeddings is full: %d calls run or wait", n-1)
	}
	j.ended = make(chan struct{})
	select {
	case e.jobs <- j:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-e.stop:
		return nil, shared.Errorf(shared.KindShuttingDown, "the slot was evicted")
	}
	<-j.ended // it looks at the context itself
	return j.vectors, j.err
}

func (e *embedder) loop() {
	defer close(e.done)
	// The thread is given back, not ended, as the scheduler's is.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer e.free()
	for {
		select {
		case j := <-e.jobs:
			j.vectors, j.err = e.compute(j)
			close(j.ended)
		case <-e.stop:
			return
		}
	}
}

func (e *embedder) free() {
	if e.context != nil {
		e.context.Close()
		e.context = nil
		e.bytes.Store(0)
	}
}

// clear empties the context for the next text.
func (e *embedder) clear() {
	if !e.context.SeqRemove(0, 0, -1) {
		e.free()
	}
}

func (e *embedder) compute(j *embedJob) ([][]float32, error) {
	longest := 0
	for _, tokens := range j.texts {
		longest = max(longest, len(tokens))
	}
	var vectors [][]float32
	for _, tokens := range j.texts {
		if err := e.open(longest); err != nil {
			return nil, err
		}
		v, err := e.vector(j, tokens)
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, v)
	}
	return vectors, nil
}

// open makes a context that holds a text of n tokens, unless there is one.
func (e *embedder) open(n int) error {
	if e.context != nil && e.size >= n {
		return nil
	}
	size := embedMinimum
	for size < n {
		size *= 2
	}
	e.free()
	cfg := e.config
	cfg.TokensPerSequence = min(size, e.config.TokensPerSequence)
	cfg.Sequences, cfg.BatchTokens, cfg.Outputs, cfg.Embeddings = 1, min(embedChunk, cfg.TokensPerSequence), 0, true
	made, err := e.model.NewContext(cfg)
	if err != nil {
		return engineError("the engine cannot make a context for embeddings", err)
	}
	e.context, e.size = made, cfg.TokensPerSequence
	e.bytes.Store(made.DeviceBytes())
	return nil
}

// vector computes one text in steps. After an error of the engine the context is
// made anew, since what it holds is not known.
func (e *embedder) vector(j *embedJob, tokens []int32) ([]float32, error) {
	p := pool{kind: j.pooling}
	for from := 0; from < len(tokens); from += embedChunk {
		if j.ctx.Err() != nil {
			e.clear()
			return nil, context.Cause(j.ctx)
		}
		var rows []Row
		for i, token := range tokens[from:min(from+embedChunk, len(tokens))] {
			rows = append(rows, Row{Token: token, Pos: int32(from + i), Logits: true})
		}
		if err := e.context.Decode(rows); err != nil {
			e.failed(err)
			e.free()
			return nil, shared.Errorf(shared.KindEngine, "the engine failed: %w", err)
		}
		e.progress.Add(1)
		for i := range rows {
			v := e.context.Embedding(i)
			if v == nil {
				e.free()
				return nil, shared.Errorf(shared.KindUnsupported, "the model (%s) gives no embeddings", e.model.Info().Architecture)
			}
			p.add(v)
		}
	}
	e.clear()
	out, ok := p.unit()
	if !ok {
		return nil, shared.Errorf(shared.KindEngine, "the engine gave a vector without a direction")
	}
	return out, nil
}
