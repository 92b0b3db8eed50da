package main

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// fakeFrontend is a supervisor with two slots whose every figure is made up. Its
// phases take their time, which passes at once inside a synctest bubble.
type fakeFrontend struct {
	slots []shared.SlotInfo
	// cold says what a slot that is not ready lacks.
	cold map[string]shared.ActivationDetail
	// refuse answers every operation with an error.
	refuse error
	// fail ends a request after its first chunk.
	fail error
	// asked is the latest request.
	asked shared.GenerateRequest
	// logprobs go out with the first text.
	logprobs []shared.TokenLogprob
	// watched is given to watchers, one list after the other.
	watched []shared.SlotList
	// declared is what Plan was asked about.
	declared shared.Declaration
	plan     shared.Plan
	reload   shared.Reload
	activity shared.Activity
}

var _ shared.Frontend = (*fakeFrontend)(nil)

func newFake() *fakeFrontend {
	slot := func(id, precision, digest string) shared.SlotInfo {
		return shared.SlotInfo{
			SlotID: id, Model: "storyteller", ModelPath: "/models/" + id + ".gguf",
			Identity: shared.Identity{
				ModelRevision: "sha256:" + digest, Precision: precision, TokenizerRevision: "sha256:70c3",
				LayoutRevision: "sha256:1a01", SlotRevision: "sha256:5107",
			},
			Status: shared.SlotResident, Process: shared.ProcessUp, PID: 4711, HostBufferID: "host-" + id, DeviceBufferID: "device-" + id,
			Device: "cpu", Transfer: shared.TransferMmap, Pinned: true, HostBytes: 3_383_040, DeviceBytes: 41_000_000,
			ContextTokens: 2048, Parallel: 4, OnMiss: shared.OnMissWait,
		}
	}
	return &fakeFrontend{
		slots: []shared.SlotInfo{slot(demoQ8, "Q8_0", "a800"), slot(demoF16, "F16", "f160")},
		cold:  map[string]shared.ActivationDetail{},
	}
}

// detail is what preparing a slot takes: everything, or what an eviction left out.
func detail(everything bool) shared.ActivationDetail {
	d := shared.ActivationDetail{Transfer: 20 * time.Millisecond, Warmup: 12 * time.Millisecond, Canary: 8 * time.Millisecond}
	if everything {
		d.Spawn, d.Prefetch = 30*time.Millisecond, 50*time.Millisecond
	}
	return d
}

func (f *fakeFrontend) find(id string) (*shared.SlotInfo, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	for i := range f.slots {
		if f.slots[i].SlotID == id {
			return &f.slots[i], nil
		}
	}
	return nil, &shared.Error{Op: "resolve", Kind: shared.KindNotFound, Field: "slot_id", Message: "there is no slot " + id}
}

func (f *fakeFrontend) ListSlots(context.Context) (shared.SlotList, error) {
	return shared.SlotList{Slots: f.slots, Aliases: map[string]string{"gpt-4o-mini": demoQ8}}, f.refuse
}

func (f *fakeFrontend) WatchSlots(ctx context.Context, changed func(shared.SlotList) error) error {
	for _, l := range f.watched {
		if err := changed(l); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeFrontend) Resolve(_ context.Context, req shared.Requirement) (shared.Resolution, error) {
	s, err := f.find(req.SlotID)
	if err != nil {
		return shared.Resolution{}, err
	}
	return shared.Resolution{Identity: s.Identity, SlotIDs: []string{s.SlotID}, Model: s.Model}, nil
}

func (f *fakeFrontend) Detokenize(context.Context, shared.DetokenizeRequest) (string, error) {
	return "", shared.Errorf(shared.KindUnsupported, "not in these tests")
}

func (f *fakeFrontend) Embed(context.Context, shared.EmbedRequest) (shared.EmbedResult, error) {
	return shared.EmbedResult{}, shared.Errorf(shared.KindUnsupported, "not in these tests")
}

func (f *fakeFrontend) Generate(ctx context.Context, req shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
	f.asked = req
	name := req.Requirement.SlotID
	if name == "" {
		name = demoQ8
	}
	s, err := f.find(name)
	if err != nil {
		return shared.Result{}, err
	}
	res := shared.Result{
		SlotID: s.SlotID, Model: s.Model, Identity: s.Identity, FinishReason: shared.FinishStop, SlotHit: true,
		Usage:  shared.Usage{PromptTokens: 12, CompletionTokens: 3},
		Phases: shared.Phases{Route: 20 * time.Microsecond, Queue: 100 * time.Microsecond, ContextLookup: 50 * time.Microsecond, Prefill: 4 * time.Millisecond, DecodeFirstToken: 300 * time.Microsecond},
		Prompt: 4 * time.Millisecond, Predicted: 6 * time.Millisecond,
	}
	if cold, ok := f.cold[s.SlotID]; ok {
		delete(f.cold, s.SlotID)
		res.SlotHit, res.Activation = false, cold
		// A little more than its parts: what lies between them.
		res.Phases.SlotActivation = cold.Spawn + cold.Prefetch + cold.Transfer + cold.Warmup + cold.Canary + time.Millisecond
		if err := emit(shared.Chunk{SlotID: s.SlotID, Progress: &shared.Progress{Stage: "read", DoneBytes: 1, TotalBytes: 2}}); err != nil {
			return shared.Result{}, err
		}
	}
	// Half a millisecond more than the phases: it has to show as other.
	time.Sleep(res.Phases.Sum() + 500*time.Microsecond)
	known := res.Phases
	for i, text := range []string{"Once", " upon a time", "."} {
		c := shared.Chunk{SlotID: s.SlotID, Text: text}
		if i == 0 {
			c.Phases = &known
			c.Logprobs = f.logprobs
		}
		if err := emit(c); err != nil {
			return shared.Result{}, &shared.Error{Op: "generate", Kind: shared.KindCancelled, Err: err}
		}
		if f.fail != nil {
			return shared.Result{}, f.fail
		}
		time.Sleep(2 * time.Millisecond)
	}
	return res, nil
}

func (f *fakeFrontend) Prepare(_ context.Context, slotID string, progress func(shared.Progress)) (shared.SlotInfo, error) {
	s, err := f.find(slotID)
	if err != nil {
		return shared.SlotInfo{}, err
	}
	progress(shared.Progress{Stage: "read", DoneBytes: 1, TotalBytes: 2})
	return *s, nil
}

func (f *fakeFrontend) Evict(_ context.Context, slotID string, dropHost bool) (shared.SlotInfo, error) {
	s, err := f.find(slotID)
	if err != nil {
		return shared.SlotInfo{}, err
	}
	f.cold[slotID] = detail(dropHost)
	evicted := *s
	evicted.Status, evicted.DeviceBufferID, evicted.DeviceBytes = shared.SlotEmpty, "", 0
	if dropHost {
		evicted.HostBufferID, evicted.HostBytes, evicted.Pinned = "", 0, false
	}
	return evicted, nil
}

func (f *fakeFrontend) Restart(_ context.Context, slotID string) (shared.SlotInfo, error) {
	s, err := f.find(slotID)
	if err != nil {
		return shared.SlotInfo{}, err
	}
	restarted := *s
	restarted.PID, restarted.Restarts, restarted.Status = 4712, 1, shared.SlotPrefetching
	restarted.Progress = shared.Progress{Stage: "read", DoneBytes: 1_000_000, TotalBytes: 3_383_040}
	return restarted, nil
}

func (f *fakeFrontend) Tokenize(context.Context, shared.TokenizeRequest) ([]int32, error) {
	return nil, f.refuse
}

func (f *fakeFrontend) ApplyTemplate(context.Context, shared.ApplyTemplateRequest) (string, error) {
	return "", f.refuse
}

func (f *fakeFrontend) Plan(_ context.Context, d shared.Declaration) (shared.Plan, error) {
	f.declared = d
	return f.plan, f.refuse
}

func (f *fakeFrontend) Reload(context.Context) (shared.Reload, error) { return f.reload, f.refuse }

func (f *fakeFrontend) Activity(context.Context, uint64) (shared.Activity, error) {
	return f.activity, f.refuse
}
