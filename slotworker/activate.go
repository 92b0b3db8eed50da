package slotworker

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/cores"
	"github.com/firstframe/firstframe/shared/gbnf"
)

// What a slot has that does not set it.
const (
	defaultChunk     = 512
	defaultPage      = 64
	defaultHostPages = 512 << 20
)

// exactPage is the least page of a slot with exact reuse: the engine computes
// chunks of this many rows and more in the same way.
const exactPage = 64

// resident is a model with its device buffers, ready for requests.
type resident struct {
	spec        shared.SlotSpec
	identity    shared.Identity
	model       Model
	scheduler   *scheduler
	embedder    *embedder
	template    *chatTemplate
	vocab       int32
	addsBOS     bool
	addsSpace   bool // before the first word of a text
	deviceBytes int64
	tools       *toolFormat        // nil when the chat template knows none
	thinking    *shared.ThinkMarks // nil when the chat template has no marks for thoughts
	words       *gbnf.Vocabulary   // made by the first request with a grammar
	wordsOnce   sync.Once
}

func (r *resident) close() {
	r.closeContexts()
	r.model.Close()
}

func (r *resident) closeContexts() {
	r.embedder.close()
	r.scheduler.close()
}

// Activate builds the device buffers from the host buffer, proves that they are
// what was expected and that they compute what they always did.
func (w *Worker) Activate(ctx context.Context, req shared.ActivateRequest) (shared.ActivateResult, error) {
	var host *hostBuffer
	var err error
	askErr := w.owner.ask(func(s *slotState) {
		if host, err = s.beginActivate(); err == nil {
			w.preparations.Add(1)
		}
	})
	if err := firstError(askErr, err); err != nil {
		return shared.ActivateResult{}, shared.AsError(err, "activate", "")
	}
	defer w.preparations.Done()
	ctx, cancel := joinContexts(ctx, w.preparing)
	defer cancel()
	spec := host.proof.spec
	r, res, err := w.build(ctx, host, req.Expected)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	kept := host
	if host.unchanged() != nil {
		// What the buffer shows is no longer what was proved.
		_ = host.release()
		kept = nil
	}
	if askErr := w.owner.ask(func(s *slotState) { s.endActivate(kept, r) }); err == nil {
		err = askErr
	}
	if err != nil {
		return shared.ActivateResult{}, shared.AsError(err, "activate", spec.SlotID)
	}
	return res, nil
}

// build makes a resident model. Nothing is left of one that fails.
func (w *Worker) build(ctx context.Context, host *hostBuffer, expected shared.Identity) (*resident, shared.ActivateResult, error) {
	var res shared.ActivateResult
	if err := host.unchanged(); err != nil {
		return nil, res, err
	}
	identity := host.proof.identity
	if err := compareIdentity(identity, expected); err != nil {
		return nil, res, err
	}
	begin := time.Now()
	model, err := w.load(ctx, host)
	if err != nil {
		return nil, res, err
	}
	r := &resident{spec: host.proof.spec, identity: identity, model: model}
	canary, err := w.canaryOf(model, r.spec, identity)
	if err == nil {
		r.scheduler, err = w.start(host, model, canary)
	}
	if err != nil {
		model.Close()
		return nil, res, err
	}
	r.embedder = startEmbedder(model, r.scheduler.cfg.context, r.spec.Queue, &w.progress, w.engineFailed)
	res.Warmup = r.scheduler.warmed
	res.Transfer = time.Since(begin) - res.Warmup
	begin = time.Now()
	if res.CanaryTokens, err = w.prove(ctx, r, canary); err == nil {
		// What was proved must still be true now that the engine has read it.
		err = host.unchanged()
	}
	if err == nil {
		err = r.prepareText(host)
	}
	if err != nil {
		r.close()
		return nil, res, err
	}
	res.Canary = time.Since(begin)
	r.deviceBytes = model.Info().OwnBytes + r.scheduler.deviceBytes
	res.Identity = identity
	res.DeviceBytes = r.deviceBytes
	res.HostBytes = model.Info().HostBytes + r.scheduler.hostBytes
	res.ContextTokens = r.spec.ContextTokens
	return r, res, nil
}

// load builds the weights and compares the engine's idea of the model with the
// header. What an eviction left of them is taken as it is, unless it lacks adapters.
func (w *Worker) load(ctx context.Context, host *hostBuffer) (Model, error) {
	if kept := host.model; kept != nil {
		host.model = nil
		if len(host.adapters) == 0 {
			return kept, nil
		}
		kept.Close()
	}
	source := host.source()
	source.Progress = func(float32) bool {
		w.progress.Add(1)
		return ctx.Err() == nil
	}
	model, err := w.engine.Load(source)
	if err != nil {
		return nil, engineError("the engine cannot load the model", err)
	}
	if err := host.proof.checkGeometry(model.Info()); err != nil {
		model.Close()
		return nil, err
	}
	return model, nil
}

// start makes the context with its scheduler.
func (w *Worker) start(host *hostBuffer, model Model, c canary) (*scheduler, error) {
	spec := host.proof.spec
	s, err := startScheduler(schedulerConfig{
		model: model,
		context: ContextConfig{
			TokensPerSequence: spec.ContextTokens,
			Sequences:         spec.Parallel,
			BatchTokens:       spec.PrefillChunk + spec.Parallel,
			Threads:           spec.Threads,
			KVType:            spec.KVType,
		},
		chunk:    spec.PrefillChunk,
		queue:    spec.Queue,
		pages:    w.pages(host),
		kept:     &w.kept,
		sample:   c.Prompt,
		cold:     c.passed == nil,
		progress: &w.progress,
		logger:   w.cfg.Logger,
		failed:   w.engineFailed,
	})
	if err != nil {
		return nil, engineError("the engine cannot make the context", err)
	}
	return s, nil
}

// engineFailed is told of each error of the engine. One that the device caused
// comes again for every request, until another process takes this one's place.
func (w *Worker) engineFailed(err error) {
	if lost := w.device.lost(err); lost != nil && w.cfg.Lost != nil {
		w.cfg.Lost(lost)
	}
}

// pages says what a slot keeps of its prompts.
func (w *Worker) pages(host *hostBuffer) pagesConfig {
	spec := host.proof.spec
	c := pagesConfig{
		identity: host.proof.identity,
		page:     spec.PageTokens,
		exact:    spec.Reuse == shared.ReuseExact,
		salt:     spec.PagesSalt,
		host:     spec.PagesHost,
		disk:     spec.PagesDisk,
	}
	if c.disk > 0 {
		c.dir = filepath.Join(w.cfg.StateDir, "pages")
	}
	return c
}

// fillSpec puts defaults where a slot sets nothing.
func (w *Worker) fillSpec(s shared.SlotSpec, trained int) (shared.SlotSpec, error) {
	if s.ContextTokens == 0 {
		s.ContextTokens = trained
	}
	if s.Parallel == 0 {
		s.Parallel = 1
	}
	if s.PrefillChunk == 0 {
		s.PrefillChunk = defaultChunk
	}
	if s.Threads == 0 {
		s.Threads = cores.Usable()
	}
	if s.KVType == "" {
		s.KVType = "f16"
	}
	if s.PageTokens == 0 {
		s.PageTokens = defaultPage
	}
	if s.PagesHost == 0 {
		s.PagesHost = defaultHostPages
	}
	if s.Reuse == "" {
		s.Reuse = shared.ReuseFast
	}
	if s.Queue == 0 {
		s.Queue = w.cfg.Queue
	}
	if s.Deadline == 0 {
		s.Deadline = w.cfg.Deadline
	}
	s.PrefillChunk = min(s.PrefillChunk, s.ContextTokens)
	if s.Reuse == shared.ReuseExact {
		s.PrefillChunk = max(1, s.PrefillChunk/max(1, s.PageTokens)) * s.PageTokens
	}
	switch {
	case s.ContextTokens < 2 || s.Parallel < 1 || s.PrefillChunk < 1 || s.Threads < 1:
		return s, shared.Errorf(shared.KindInvalid, "context tokens %d, parallel %d, prefill chunk %d and threads %d have to be positive", s.ContextTokens, s.Parallel, s.PrefillChunk, s.Threads)
	case s.PageTokens < 1 || s.PagesHost < 0 || s.PagesDisk < 0 || s.Queue < 0 || s.Deadline < 0:
		return s, shared.Errorf(shared.KindInvalid, "page tokens %d have to be positive, and pages of %d and %d bytes, queue %d and deadline %v cannot be negative", s.PageTokens, s.PagesHost, s.PagesDisk, s.Queue, s.Deadline)
	case s.Reuse != shared.ReuseFast && s.Reuse != shared.ReuseExact:
		return s, &shared.Error{Kind: shared.KindInvalid, Field: "pages.reuse", Message: fmt.Sprintf("unknown reuse %q", s.Reuse)}
	case s.Reuse == shared.ReuseExact && s.PageTokens < exactPage:
		return s, &shared.Error{Kind: shared.KindInvalid, Field: "pages.reuse", Message: fmt.Sprintf("exact reuse needs pages of at least %d tokens, not %d", exactPage, s.PageTokens)}
	case trained > 0 && s.ContextTokens > trained:
		return s, &shared.Error{Kind: shared.KindInvalid, Field: "context.tokens", Message: fmt.Sprintf("the model was trained for %d tokens, the slot asks for %d", trained, s.ContextTokens)}
	default:
		return s, nil
	}
}

// compareIdentity fails unless both are complete and equal, and shows both.
func compareIdentity(proved, expected shared.Identity) error {
	if proved.Matches(expected) {
		return nil
	}
	differs := proved.Differs(expected)
	e := &shared.Error{Kind: shared.KindIdentity, Field: differs[0], Message: "the identity is not the expected one"}
	want := map[string]string{}
	for _, f := range expected.Fields() {
		want[f.Name] = f.Value
	}
	for _, f := range proved.Fields() {
		if f.Value == "" || f.Value != want[f.Name] {
			e.Message += fmt.Sprintf("; %s is %q, expected %q", f.Name, f.Value, want[f.Name])
		}
	}
	return e
}

// engineError keeps an error that has a kind and makes the others the engine's.
func engineError(what string, err error) error {
	if shared.KindOf(err) != shared.KindOther {
		return err
	}
	return shared.Errorf(shared.KindEngine, what+": %w", err)
}
