package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// fakeFiles are model files that are what their declaration in models says.
type fakeFiles struct {
	mu      sync.Mutex
	models  map[string]fakeModel
	hashed  map[string]int
	hashing time.Duration     // how long a digest takes
	during  func(path string) // happens while a file is hashed
}

type fakeModel struct {
	precision string
	digest    string
	err       error
}

type fakeHeader struct {
	m    fakeModel
	path string
}

func (f *fakeFiles) model(path string) fakeModel {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.models[path]
}

func (f *fakeFiles) set(path string, m fakeModel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.models[path] = m
}

func (f *fakeFiles) Header(path string) (modelHeader, error) {
	m := f.model(path)
	return fakeHeader{m, path}, m.err
}

func (f *fakeFiles) Digest(ctx context.Context, paths []string, progress func(done, total int64)) (string, error) {
	path := paths[0]
	f.mu.Lock()
	f.hashed[path]++
	f.mu.Unlock()
	progress(1, 2)
	if f.during != nil {
		f.during(path)
	}
	if err := pause(ctx, f.hashing); err != nil {
		return "", err
	}
	return "sha256:" + f.model(path).digest, nil
}

func (h fakeHeader) Identity(revision string, spec shared.SlotSpec, adapters ...string) shared.Identity {
	return shared.Identity{
		ModelRevision: revision, Precision: h.m.precision, TokenizerRevision: "sha256:tok",
		LayoutRevision: "sha256:layout" + spec.DeviceKind, SlotRevision: shared.SlotRevision(spec.Adapters, adapters),
	}
}

func (h fakeHeader) AdapterSize(string) (int64, error) { return 10, nil }

func (h fakeHeader) Paths() []string { return []string{h.path} }

func (h fakeHeader) Size() int64 { return 1000 }

func (h fakeHeader) About() shared.ModelFile {
	return shared.ModelFile{Architecture: "fake", Bytes: h.Size()}
}

// DeviceNeed is more than fakes then have.
func (h fakeHeader) DeviceNeed(shared.SlotSpec) int64 { return 2100 }

// HostNeed is a little, when the device is not the CPU.
func (h fakeHeader) HostNeed(spec shared.SlotSpec) int64 {
	if spec.OnCPU() {
		return 0
	}
	return 50
}

// pause sleeps on the bubble's clock.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fakeWorker keeps to the contract, and notes when the supervisor does not.
type fakeWorker struct {
	proc *fakeProcess

	mu      sync.Mutex
	host    bool
	device  bool
	id      shared.Identity
	running int
	quiet   []chan struct{}
	calls   map[string]int

	// Each of these may delay or fail a call.
	onPrefetch, onActivate, onEvict func(ctx context.Context) error
	// onGenerate runs instead of the usual answer.
	onGenerate  func(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error)
	onHeartbeat func(context.Context) (shared.HeartbeatResult, error)
	progress    atomic.Uint64
	phases      shared.Phases
	activation  shared.ActivateResult
	wrong       bool // proves another identity
	astray      bool // answers requests with another identity
	deaf        bool // calls do not notice the end of the process
}

func (w *fakeWorker) rule(ok bool, text string) {
	w.proc.launcher.rule(ok, w.proc.slotID+": "+text)
}

// idle is closed when nothing runs.
func (w *fakeWorker) idle() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan struct{})
	if w.running == 0 {
		close(ch)
	} else {
		w.quiet = append(w.quiet, ch)
	}
	return ch
}

// call runs one call of the supervisor; it fails when the process ends.
func (w *fakeWorker) call(ctx context.Context, name string, f func(context.Context) error) error {
	w.mu.Lock()
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	w.calls[name]++
	w.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := shared.Errorf(shared.KindWorkerLost, "transport is closing")
	select {
	case <-w.proc.done:
		return gone
	default:
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-w.proc.done:
			if !w.deaf {
				cancel(gone)
			}
		case <-stop:
		}
	}()
	err := f(ctx)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, gone):
		return gone
	default: // like an RPC, it does not tell the cause
		return &shared.Error{Kind: shared.KindOf(ctx.Err()), Message: "the call's context has ended"}
	}
}

func hook(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return ctx.Err()
	}
	return f(ctx)
}

func (w *fakeWorker) Describe(ctx context.Context) (shared.WorkerInfo, error) {
	return shared.WorkerInfo{PID: w.proc.pid, CPUVariant: "fake"}, ctx.Err()
}

func (w *fakeWorker) Prefetch(ctx context.Context, req shared.PrefetchRequest, progress func(shared.Progress)) (shared.PrefetchResult, error) {
	err := w.call(ctx, "prefetch", func(ctx context.Context) error {
		w.mu.Lock()
		w.rule(!w.host && !w.device, "prefetch over a buffer")
		w.rule(req.Plan.ModelRevision == req.Expected.ModelRevision && req.Plan.SlotID == w.proc.slotID && req.Plan.HostBufferID != "", "a bad plan")
		w.mu.Unlock()
		progress(shared.Progress{Stage: "read", DoneBytes: 500, TotalBytes: 1000})
		if err := hook(ctx, w.onPrefetch); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.host, w.id = true, req.Expected
		if w.wrong {
			w.id.ModelRevision = "sha256:other"
		}
		return nil
	})
	if err != nil {
		return shared.PrefetchResult{}, err
	}
	return shared.PrefetchResult{
		HostBufferID: req.Plan.HostBufferID, HostBytes: 1000, Pinned: true, Transfer: shared.TransferMmap,
		ModelRevision: w.id.ModelRevision, Precision: w.id.Precision, TokenizerRevision: w.id.TokenizerRevision,
	}, nil
}

func (w *fakeWorker) Activate(ctx context.Context, req shared.ActivateRequest) (shared.ActivateResult, error) {
	err := w.call(ctx, "activate", func(ctx context.Context) error {
		w.mu.Lock()
		w.rule(w.host && !w.device, "activation without a host buffer, or twice")
		w.mu.Unlock()
		if err := hook(ctx, w.onActivate); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.device = true
		return nil
	})
	if err != nil {
		return shared.ActivateResult{}, err
	}
	res := w.activation
	res.Identity, res.DeviceBytes, res.ContextTokens = w.id, 2000, 512
	return res, nil
}

func (w *fakeWorker) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	w.mu.Lock()
	w.rule(w.device, "a request on a slot that is not resident")
	w.rule(req.Identity.Matches(w.id), "a request for another identity")
	w.running++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.running--; w.running == 0 {
			for _, ch := range w.quiet {
				close(ch)
			}
			w.quiet = nil
		}
	}()
	var res shared.Result
	err := w.call(ctx, "generate", func(ctx context.Context) error {
		generate := w.answer
		if w.onGenerate != nil {
			generate = w.onGenerate
		}
		var err error
		res, err = generate(ctx, req, emit)
		res.Identity = w.id
		if w.astray {
			res.Identity.Precision = "F32"
		}
		return err
	})
	if err != nil {
		return shared.Result{}, err
	}
	return res, nil
}

// answer is the usual answer.
func (w *fakeWorker) answer(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	p := w.phases
	for i, text := range []string{"once ", "upon ", "a time"} {
		c := shared.Chunk{Text: text, Tokens: []int32{int32(i)}}
		if i == 0 {
			c.Phases = &p
		}
		if err := emit(c); err != nil {
			return shared.Result{}, err
		}
	}
	return shared.Result{FinishReason: shared.FinishStop, Phases: w.phases}, ctx.Err()
}

func (w *fakeWorker) Tokenize(ctx context.Context, req shared.TokenizeRequest) ([]int32, error) {
	w.rule(req.Identity.Matches(w.id), "a request for another identity")
	return []int32{int32(len(req.Text))}, w.call(ctx, "tokenize", func(ctx context.Context) error { return ctx.Err() })
}

func (w *fakeWorker) ApplyTemplate(ctx context.Context, req shared.ApplyTemplateRequest) (string, error) {
	return req.Messages[0].Content, w.call(ctx, "template", func(ctx context.Context) error { return ctx.Err() })
}

func (w *fakeWorker) Detokenize(ctx context.Context, req shared.DetokenizeRequest) (string, error) {
	w.rule(req.Identity.Matches(w.id), "a request for another identity")
	return fmt.Sprint(req.Tokens), w.call(ctx, "detokenize", func(ctx context.Context) error { return ctx.Err() })
}

func (w *fakeWorker) Embed(ctx context.Context, req shared.EmbedRequest) (shared.EmbedResult, error) {
	w.rule(req.Identity.Matches(w.id), "a request for another identity")
	return shared.EmbedResult{Identity: w.id, Vectors: make([][]float32, len(req.Inputs)), PromptTokens: 5},
		w.call(ctx, "embed", func(ctx context.Context) error { return ctx.Err() })
}

func (w *fakeWorker) Evict(ctx context.Context, dropHost bool) (shared.EvictWorkerResult, error) {
	err := w.call(ctx, "evict", func(ctx context.Context) error {
		w.mu.Lock()
		w.rule(w.running == 0, "evicted while busy")
		w.mu.Unlock()
		if err := hook(ctx, w.onEvict); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.device = false
		w.host = w.host && !dropHost
		return nil
	})
	return shared.EvictWorkerResult{}, err
}

func (w *fakeWorker) Drain(context.Context, time.Duration) (int, error) { return 0, nil }

func (w *fakeWorker) Heartbeat(ctx context.Context) (shared.HeartbeatResult, error) {
	w.mu.Lock()
	res, f := shared.HeartbeatResult{Progress: w.progress.Load(), Running: w.running}, w.onHeartbeat
	w.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return res, nil
}

func (w *fakeWorker) Status(context.Context) (shared.WorkerStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	w.calls["status"]++
	return shared.WorkerStatus{SequencesRunning: w.running}, nil
}

// holds reports whether any buffer is left.
func (w *fakeWorker) holds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host || w.device
}

func (w *fakeWorker) count(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[call]
}
