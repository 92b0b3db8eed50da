package supervisor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

func TestReloadTouchesOnlyWhatChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, nil)
		defer r.end()
		for _, id := range []string{"a", "b", "c"} {
			r.mustAsk(id)
		}
		before := map[string]shared.SlotInfo{"a": r.slot("a"), "b": r.slot("b")}
		d := r.declared(func(s map[string]*shared.SlotSpec) {
			s["b"].Parallel, s["b"].Deadline = 2, time.Minute
			fourth := *s["c"]
			fourth.SlotID, fourth.Preload = "d", true
			s["d"] = &fourth
			s["c"] = nil
		})
		delete(d.Aliases, "first")
		d.Aliases["second"] = "b"
		want := shared.Plan{
			Slots: []shared.SlotChange{
				{SlotID: "a", Action: shared.ActionKeep},
				{SlotID: "b", Action: shared.ActionChange, Fields: []shared.FieldChange{
					{Name: "context.parallel", Old: "1", New: "2"}, {Name: "deadline", Old: "0s", New: "1m0s"},
				}},
				{SlotID: "d", Action: shared.ActionAdd},
				{SlotID: "c", Action: shared.ActionRemove},
			},
			Aliases: []shared.AliasChange{
				{Alias: "first", Action: shared.ActionRemove, Old: "a"}, {Alias: "second", Action: shared.ActionAdd, New: "b"},
			},
		}
		planned, err := r.Plan(t.Context(), d)
		if diff := cmp.Diff(want, planned); err != nil || diff != "" {
			t.Errorf("plan: %v\n%s", err, diff)
		}
		if r.slot("b").PID != before["b"].PID || len(r.list(t.Context()).Slots) != 3 {
			t.Error("a plan has changed something")
		}
		if diff := cmp.Diff(want, c.reload(r, d)); diff != "" {
			t.Error(diff)
		}
		r.mustAsk("second")
		r.mustAsk("d")
		if a := r.slot("a"); a.PID != before["a"].PID || a.HostBufferID != before["a"].HostBufferID || r.launcher.launched("a") != 1 {
			t.Errorf("the slot that did not change was touched: %+v", a)
		}
		if b := r.slot("b"); b.PID == before["b"].PID || b.Parallel != 2 {
			t.Errorf("the changed slot is %+v", b)
		}
		_, _, err = r.ask(t.Context(), "c")
		wantKind(t, err, shared.KindNotFound)
		_, _, err = r.ask(t.Context(), "first")
		wantKind(t, err, shared.KindNotFound)
		if p := c.reload(r, d); !p.Empty() || p.Count(shared.ActionKeep) != 3 {
			t.Errorf("the same again: %+v", p)
		}
	})
}

func TestRequestsWaitForTheSlotThatComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, slowWorkers(false))
		defer r.end()
		r.mustAsk("b", tokens(0))
		long := make(chan error, 1)
		go func() { _, _, err := r.ask(t.Context(), "b", tokens(20)); long <- err }()
		synctest.Wait()
		start := time.Now()
		c.reload(r, r.declared(parallel(2)))
		if b := r.slot("b"); b.Parallel != 2 || b.Process != shared.ProcessStopped {
			t.Errorf("just after the reload the slot is %+v", b)
		}
		_, _, err := r.ask(t.Context(), "b", onMiss(shared.OnMissFail))
		wantKind(t, err, shared.KindNotResident)
		r.mustAsk("b", tokens(0)) // the launcher sees to it that the old process had ended
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("the request waited %s", took)
		}
		if err := <-long; err != nil {
			t.Errorf("the request that was running: %v", err)
		}
	})
}

func TestRequestsThatOutliveTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, quiet := range []bool{true, false} {
			r, c := reloadRig(t, slowWorkers(quiet))
			r.mustAsk("b", tokens(0))
			ended := make(chan error, 1)
			go func() { _, _, err := r.ask(t.Context(), "b", tokens(40)); ended <- err }()
			synctest.Wait()
			c.reload(r, r.declared(parallel(2)))
			// Without a first chunk it can begin again; with one it is told.
			if err := <-ended; quiet && err != nil || !quiet && shared.KindOf(err) != shared.KindWorkerLost {
				t.Errorf("without text %v: %v", quiet, err)
			}
			r.end()
		}
	})
}

// What the worker itself refuses at its end is not the client's business.
func TestRefusedByTheWorkerThatLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, begun := range []bool{false, true} {
			running := make(chan struct{})
			r, c := reloadRig(t, func(r *rig) {
				r.launcher.script = func(slotID string, n int, w *fakeWorker) {
					if slotID == "b" && n == 1 {
						w.onGenerate = func(ctx context.Context, _ shared.GenerateRequest, emit func(shared.Chunk) error) (shared.Result, error) {
							if begun {
								if err := emit(shared.Chunk{Text: "once "}); err != nil {
									return shared.Result{}, err
								}
							}
							close(running)
							return shared.Result{}, firstOf(pause(ctx, 10*time.Second), shared.Errorf(shared.KindShuttingDown, "the worker is ending"))
						}
					}
				}
			})
			ended := make(chan error, 1)
			go func() { _, _, err := r.ask(t.Context(), "b"); ended <- err }()
			<-running
			c.reload(r, r.declared(parallel(2)))
			switch err := <-ended; {
			case !begun && err != nil:
				t.Error(err)
			case begun && (shared.KindOf(err) != shared.KindCancelled || !strings.Contains(err.Error(), "reload")):
				t.Errorf("the request that had begun: %v", err)
			}
			r.end()
		}
	})
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRemovedSlotTellsWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, func(r *rig) {
			r.launcher.launch = func(ctx context.Context, slotID string, _ int) error {
				if slotID == "b" {
					return pause(ctx, time.Hour)
				}
				return nil
			}
		})
		defer r.end()
		ended := make(chan error, 2)
		go func() { _, _, err := r.ask(t.Context(), "b"); ended <- err }()
		go func() { _, err := r.Prepare(t.Context(), "b", nil); ended <- err }()
		synctest.Wait()
		c.reload(r, r.declared(func(s map[string]*shared.SlotSpec) { s["b"] = nil }))
		for range 2 {
			if e := errorOf(t, <-ended, shared.KindNotFound); !strings.Contains(e.Text(), `"b"`) {
				t.Error(e)
			}
		}
	})
}

func TestSlotThatComesBackWhileItLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, slowWorkers(false))
		defer r.end()
		r.mustAsk("b", tokens(0))
		full := r.declared(func(map[string]*shared.SlotSpec) {})
		go func() { _, _, _ = r.ask(t.Context(), "b", tokens(20)) }()
		synctest.Wait()
		c.reload(r, r.declared(func(s map[string]*shared.SlotSpec) { s["b"] = nil }))
		if p := c.reload(r, full); p.Count(shared.ActionAdd) != 1 {
			t.Errorf("the plan is %+v", p)
		}
		// Replaced twice before its turn has come.
		c.reload(r, r.declared(parallel(2)))
		c.reload(r, r.declared(parallel(3)))
		start := time.Now()
		if info, err := r.Prepare(t.Context(), "b", nil); err != nil || info.Parallel != 3 || time.Since(start) != 20*time.Second {
			t.Errorf("after %s: %v, %+v", time.Since(start), err, info)
		}
		if n := r.launcher.launched("b"); n != 2 {
			t.Errorf("%d processes were started", n)
		}
	})
}

func TestSuccessorOfAProcessThatCannotBeEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, func(r *rig) {
			r.launcher.script = func(slotID string, n int, w *fakeWorker) {
				if slotID == "b" && n == 1 {
					w.proc.immortal, w.proc.pid = true, os.Getpid()
				}
			}
		})
		r.mustAsk("b")
		old := r.launcher.process("b")
		c.reload(r, r.declared(parallel(2)))
		_, err := r.Prepare(t.Context(), "b", nil)
		if e := errorOf(t, err, shared.KindUnavailable); !strings.Contains(e.Text(), "could not be ended") {
			t.Error(e)
		}
		if n := r.launcher.launched("b"); n != 1 {
			t.Errorf("%d processes were started beside each other", n)
		}
		r.mustAsk("a")
		old.die(ExitInfo{Signal: "killed"})
		if err := r.Close(t.Context()); err == nil {
			t.Error("close does not tell of the process")
		}
	})
}

func TestBrokenConfigurationChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var lines strings.Builder
		c := &config{}
		cfg := Config{
			Slots: []shared.SlotSpec{rigSlot("a", "one", "Q8_0")}, Source: c.source,
			Logger: hclog.New(&hclog.LoggerOptions{Output: &lines, DisableTime: true}),
		}
		r := newRig(t, cfg, nil)
		r.mustAsk("a")
		pid := r.slot("a").PID
		c.diags = []shared.Diagnostic{{Summary: "Unknown key", Detail: "There is no key modell.", File: "x.hcl", Line: 3, Column: 5}}
		res, err := r.Reload(t.Context())
		if diff := cmp.Diff(shared.Reload{Diagnostics: c.diags}, res); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		c.diags, c.next = nil, shared.Declaration{Slots: []shared.SlotSpec{rigSlot("a", "one", "Q8_0"), rigSlot("a", "one", "Q8_0")}}
		_, err = r.Reload(t.Context())
		wantKind(t, err, shared.KindConfig)
		_, err = r.Plan(t.Context(), c.next)
		wantKind(t, err, shared.KindConfig)
		if a := r.slot("a"); a.PID != pid || !a.Status.Ready() || len(r.list(t.Context()).Slots) != 1 {
			t.Errorf("something has changed: %+v", a)
		}
		r.end()
		_, err = r.Reload(t.Context())
		wantKind(t, err, shared.KindShuttingDown)
		if text := lines.String(); !strings.Contains(text, "Unknown key") || !strings.Contains(text, "line=3") || strings.Count(text, "nothing has changed") != 2 {
			t.Errorf("the log is\n%s", text)
		}
		plain := newRig(t, Config{Slots: []shared.SlotSpec{rigSlot("a", "one", "Q8_0")}}, nil)
		defer plain.end()
		_, err = plain.Reload(t.Context())
		wantKind(t, err, shared.KindUnsupported)
	})
}

// Reloads as fast as they come, under load: requests wait, and none is lost.
func TestReloadStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, c := reloadRig(t, func(r *rig) {
			r.launcher.launch = func(ctx context.Context, _ string, _ int) error { return pause(ctx, 30*time.Millisecond) }
			slowWorkers(true)(r)
		})
		defer r.end()
		var load sync.WaitGroup
		over := make(chan struct{})
		for i := range 12 {
			id := string(rune('a' + i%3))
			load.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-over:
						return
					default:
					}
					if _, _, err := r.ask(t.Context(), id, tokens(n%2)); err != nil {
						t.Errorf("request %d on %s: %v", n, id, err)
						return
					}
				}
			})
		}
		for i := range 200 {
			c.reload(r, r.declared(parallel(1+i%4)))
			time.Sleep(time.Duration(i%17) * 20 * time.Millisecond)
		}
		close(over)
		load.Wait()
		if r.launcher.launched("a") != 1 || r.launcher.launched("c") != 1 || r.launcher.launched("b") < 10 {
			t.Errorf("launches: a %d, b %d, c %d", r.launcher.launched("a"), r.launcher.launched("b"), r.launcher.launched("c"))
		}
	})
}

func TestActivityRemembersRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := reloadRig(t, slowWorkers(false))
		defer r.end()
		named := func(id string) func(*shared.GenerateRequest) {
			return func(q *shared.GenerateRequest) { q.RequestID = id }
		}
		r.mustAsk("a", tokens(2), named("cold"))
		r.mustAsk("a", tokens(1), named("warm"))
		_, _, err := r.ask(t.Context(), "nobody", named("lost"))
		wantKind(t, err, shared.KindNotFound)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, _, err = r.ask(ctx, "b", tokens(9), named("left"))
		wantKind(t, err, shared.KindCancelled)
		time.Sleep(3 * time.Second)
		got, err := r.Activity(t.Context(), 0)
		if err != nil || len(got.Requests) != 4 || got.Tokens["a"] != 6 || got.Tokens["c"] != 0 {
			t.Fatalf("%v, %+v", err, got)
		}
		for i, want := range []struct{ id, outcome, kind string }{
			{"cold", "done", ""}, {"warm", "done", ""}, {"lost", "error", "not_found"}, {"left", "cancelled", "cancelled"},
		} {
			q := got.Requests[i]
			if q.Number != uint64(i+1) || q.RequestID != want.id || q.Outcome != want.outcome || q.Error != want.kind {
				t.Errorf("request %d is %+v", i, q)
			}
			if q.Phases.Sum() != q.FirstChunk || q.Phases.Other < 0 {
				t.Errorf("the phases of %s are %+v, and the first chunk came after %s", q.RequestID, q.Phases, q.FirstChunk)
			}
		}
		if q := got.Requests[1]; q.FullResponse != time.Second || q.Ago != 4*time.Second || !q.SlotHit || q.SlotID != "a" || q.Model != "one" {
			t.Errorf("the warm request is %+v", q)
		}
		for i := range keptRequests {
			r.mustAsk("a", tokens(0), named(fmt.Sprint(i)))
		}
		synctest.Wait()
		got, err = r.Activity(t.Context(), 3)
		if n := len(got.Requests); err != nil || n != keptRequests || got.Requests[n-1].RequestID != fmt.Sprint(keptRequests-1) {
			t.Errorf("%v, %d requests are kept", err, n)
		}
		if got, err = r.Activity(t.Context(), got.Requests[keptRequests-1].Number); err != nil || len(got.Requests) != 0 {
			t.Errorf("%v, %+v", err, got)
		}
	})
}
