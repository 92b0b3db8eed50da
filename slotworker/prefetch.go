package slotworker

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// Prefetch fills the host buffer and proves what is in it. A buffer that an
// eviction kept is used again when it still is what would be read.
func (w *Worker) Prefetch(ctx context.Context, req shared.PrefetchRequest, progress func(shared.Progress)) (shared.PrefetchResult, error) {
	res, err := w.prefetch(ctx, req, progress)
	if err != nil {
		return shared.PrefetchResult{}, shared.AsError(err, "prefetch", req.Spec.SlotID)
	}
	return res, nil
}

func (w *Worker) prefetch(ctx context.Context, req shared.PrefetchRequest, progress func(shared.Progress)) (shared.PrefetchResult, error) {
	transfer, err := checkPrefetch(req)
	if err != nil {
		return shared.PrefetchResult{}, err
	}
	var kept *hostBuffer
	askErr := w.owner.ask(func(s *slotState) {
		if kept, err = s.beginPrefetch(req.Spec.SlotID); err == nil {
			w.preparations.Add(1)
		}
	})
	if err := firstError(askErr, err); err != nil {
		return shared.PrefetchResult{}, err
	}
	defer w.preparations.Done()
	ctx, cancel := joinContexts(ctx, w.preparing)
	defer cancel()
	start := time.Now()
	var host *hostBuffer
	device, err := w.useDevice(req)
	if err == nil {
		host, err = w.fillHost(ctx, req, hostOrder{path: req.Spec.ModelPath, transfer: transfer, device: device, uploads: uploads(req.Spec)}, kept, progress)
	} else if kept != nil {
		err = dropping(kept, err)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	askErr = w.owner.ask(func(s *slotState) { s.endPrefetch(host) })
	if err := firstError(err, askErr); err != nil {
		return shared.PrefetchResult{}, err
	}
	return shared.PrefetchResult{
		HostBufferID:      host.id,
		HostBytes:         host.size(),
		Pinned:            host.pinned,
		PinNote:           host.pinNote,
		Transfer:          host.transfer,
		ModelRevision:     host.proof.identity.ModelRevision,
		Precision:         host.proof.identity.Precision,
		TokenizerRevision: host.proof.identity.TokenizerRevision,
		Read:              time.Since(start),
		Probe:             host.probe,
		Reason:            host.reason,
	}, nil
}

// checkPrefetch refuses orders that contradict themselves or ask for what is not there.
func checkPrefetch(req shared.PrefetchRequest) (shared.Transfer, error) {
	if req.Plan.SlotID != req.Spec.SlotID {
		return "", shared.Errorf(shared.KindProtocol, "the plan is for slot %q, the order for %q", req.Plan.SlotID, req.Spec.SlotID)
	}
	return chooseTransfer(req.Spec)
}

// manyUploads is how often a host buffer is taken to go to the device when nothing
// keeps its slot from being evicted, as page-locking has to pay for itself.
const manyUploads = 8

func uploads(spec shared.SlotSpec) int {
	if spec.Pin && spec.IdleTTL == 0 {
		return 1
	}
	return manyUploads
}

// fillHost gives a proved host buffer. Nothing is left of one that is not.
func (w *Worker) fillHost(ctx context.Context, req shared.PrefetchRequest, order hostOrder, kept *hostBuffer, progress func(shared.Progress)) (*hostBuffer, error) {
	host := kept
	if host == nil || !host.holds(order.path, order.transfer) {
		if host != nil {
			if err := host.release(); err != nil {
				return nil, err
			}
		}
		// The library opens while the file is read: both take a while when cold.
		opened := make(chan error, 1)
		go func() { opened <- w.openEngine() }()
		var err error
		host, err = readHost(ctx, order, w.reportRead(progress))
		if err := firstError(err, <-opened); err != nil {
			return nil, dropping(host, err)
		}
	}
	if want := req.Plan.ByteCount; want > 0 && want != host.size() {
		return nil, dropping(host, shared.Errorf(shared.KindModelFile, "the model file has %d bytes and had %d when it was declared", host.size(), want))
	}
	if err := w.proveHost(ctx, host, req); err != nil {
		return nil, dropping(host, err)
	}
	host.id = req.Plan.HostBufferID
	return host, nil
}

// dropping releases a buffer that turned out useless. The reason matters more
// than a failure to unmap.
func dropping(host *hostBuffer, why error) error {
	if host != nil {
		_ = host.release()
	}
	return why
}

// openEngine opens the library unless that was done before.
func (w *Worker) openEngine() error {
	if w.engine != nil {
		return nil
	}
	engine, err := w.cfg.Engine()
	if err != nil {
		return err
	}
	info := engine.Info()
	w.engine = engine
	w.info.Store(&info)
	return nil
}

// reportRead turns bytes read into heartbeats, and into at most about a hundred
// progress messages.
func (w *Worker) reportRead(progress func(shared.Progress)) func(done, total int64) {
	var told int64
	return func(done, total int64) {
		w.progress.Add(1)
		if progress == nil || done < total && done-told < total/100 {
			return
		}
		told = done
		progress(shared.Progress{Stage: "read", DoneBytes: done, TotalBytes: total})
	}
}

// joinContexts gives a context that ends with either.
func joinContexts(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}
