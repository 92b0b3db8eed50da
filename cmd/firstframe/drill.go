package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/supervisor"
)

// repairTime bounds how long a drill tries to bring back a slot that did not
// come back by itself.
const repairTime = 2 * time.Minute

// errSeen ends a watch that has seen what it waited for.
var errSeen = errors.New("seen")

// victim is the worker process that a drill does harm to.
type victim interface {
	PID() int
	Signal(sig syscall.Signal) error
	RemoveSocket() error
}

// drill does harm to one slot of a running supervisor, case by case, and looks
// how the slot gets over it.
type drill struct {
	frontend shared.Frontend
	slot     string
	// within is how long a case may take to be noticed, and then to be recovered from.
	within time.Duration
	find   func(slotID string, pid int) (victim, error)
	// fillDisk lets every write of a process fail until the function it returns
	// is called. It is nil where the system offers no way.
	fillDisk func(pid int) (func() error, error)
	progress func(format string, args ...any)
}

// drillResult is how one case went. Times are zero for what did not happen.
type drillResult struct {
	name      string
	done      bool // the harm was done
	noticed   time.Duration
	recovered time.Duration // from the harm, or from its end, to an answer
	unaided   bool          // nobody had to help
	note      string
}

// harm is one case: what it does, and how that is taken back.
type harm struct {
	name string
	do   func(v victim) (undo func() error, err error)
	// leaves a worker that serves on but has to be replaced when nobody noticed.
	replace bool
}

func nothingToUndo() error { return nil }

func (d *drill) harms() []harm {
	signal := func(sig syscall.Signal) func(victim) (func() error, error) {
		return func(v victim) (func() error, error) { return nothingToUndo, v.Signal(sig) }
	}
	return []harm{
		{name: "kill -9", do: signal(syscall.SIGKILL)},
		{name: "SIGSTOP", do: func(v victim) (func() error, error) {
			// Where it was killed meanwhile there is nothing to continue.
			return func() error { return ignoreLost(v.Signal(syscall.SIGCONT)) }, v.Signal(syscall.SIGSTOP)
		}},
		{name: "socket removed", replace: true, do: func(v victim) (func() error, error) { return nothingToUndo, v.RemoveSocket() }},
	}
}

func ignoreLost(err error) error {
	if shared.KindOf(err) == shared.KindWorkerLost {
		return nil
	}
	return err
}

// run goes through all cases. An error ends the drill; the slot is looked after
// in any case.
func (d *drill) run(ctx context.Context) ([]drillResult, error) {
	var results []drillResult
	for _, h := range d.harms() {
		d.progress("%s: %s …", d.slot, h.name)
		r, err := d.one(ctx, h)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	d.progress("%s: full disk …", d.slot)
	r, err := d.full(ctx)
	if err != nil {
		return results, err
	}
	return append(results, r), nil
}

// one does one harm and waits for the slot to get over it.
func (d *drill) one(ctx context.Context, h harm) (r drillResult, err error) {
	r.name = h.name
	v, err := d.healthy(ctx)
	if err != nil {
		return r, err
	}
	start := time.Now()
	undo, err := h.do(v)
	r.done = err == nil
	defer func() {
		// Whatever happened, also to this program: the slot has to serve again.
		undone := undo()
		fixed, fixErr := d.repair(context.WithoutCancel(ctx), h.replace && r.done && r.noticed == 0)
		if fixed {
			r.unaided = false
			r.note = joined(r.note, "brought back by a restart")
		}
		err = errors.Join(err, undone, fixErr)
	}()
	if err != nil {
		return r, err
	}
	_, seen, err := d.until(ctx, func(s shared.SlotInfo) bool { return s.PID != v.PID() || s.Process != shared.ProcessUp })
	switch {
	case err != nil:
		return r, err
	case !seen:
		r.note = fmt.Sprintf("not detected within %v", d.within)
		return r, nil
	}
	r.noticed = time.Since(start)
	s, seen, err := d.until(ctx, func(s shared.SlotInfo) bool { return s.Status.Ready() && s.PID != v.PID() })
	switch {
	case err != nil:
		return r, err
	case !seen:
		r.note = fmt.Sprintf("not recovered within %v: process %s, %s", d.within, s.Process, dash(s.LastError))
		return r, nil
	}
	if err := d.ask(ctx); err != nil {
		r.note = "the new worker does not answer: " + err.Error()
		return r, nil
	}
	r.recovered, r.unaided = time.Since(start), true
	return r, nil
}

// full lets the worker's writes fail for the length of a request that has
// something to write, and wants both that one and the next answered.
func (d *drill) full(ctx context.Context) (r drillResult, err error) {
	r.name = "full disk"
	if d.fillDisk == nil {
		r.note = "not tried: this system offers no stand-in for a full disk"
		return r, nil
	}
	v, err := d.healthy(ctx)
	if err != nil {
		return r, err
	}
	empty, err := d.fillDisk(v.PID())
	if err != nil {
		return r, err
	}
	r.done = true
	during := d.ask(ctx)
	start := time.Now()
	defer func() {
		fixed, fixErr := d.repair(context.WithoutCancel(ctx), false)
		if fixed {
			r.unaided = false
			r.note = joined(r.note, "brought back by a restart")
		}
		err = errors.Join(err, fixErr)
	}()
	if err := empty(); err != nil && v.Signal(0) == nil {
		return r, err // one that has ended needs no room any more
	}
	after := d.ask(ctx)
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case after != nil:
		r.note = "it does not answer with room again: " + after.Error()
	case during != nil:
		r.recovered = time.Since(start)
		r.note = "it did not answer while there was no room: " + during.Error()
	default:
		r.recovered, r.unaided = time.Since(start), true
		r.note = "it answered while no write succeeded"
	}
	return r, nil
}

// healthy makes sure that the slot is well before harm is done to it.
func (d *drill) healthy(ctx context.Context) (victim, error) {
	if _, err := d.repair(ctx, false); err != nil {
		return nil, err
	}
	info, err := d.info(ctx)
	if err != nil {
		return nil, err
	}
	return d.find(info.SlotID, info.PID)
}

// repair wants an answer from the slot, and restarts it when there is none, or at
// once if it has to be replaced. It reports whether it did.
func (d *drill) repair(ctx context.Context, replace bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	if !replace {
		quick, stop := context.WithTimeout(ctx, d.within)
		defer stop()
		if d.ask(quick) == nil {
			return false, nil
		}
	}
	if _, err := d.frontend.Restart(ctx, d.slot); err != nil {
		return false, err
	}
	if _, err := d.frontend.Prepare(ctx, d.slot, func(shared.Progress) {}); err != nil {
		return false, err
	}
	return true, d.ask(ctx)
}

// ask sends a short request that nothing is known of, so that there is something
// to compute and to keep.
func (d *drill) ask(ctx context.Context) error {
	_, err := d.frontend.Generate(ctx, shared.GenerateRequest{
		RequestID:   fmt.Sprintf("drill-%d", time.Now().UnixNano()),
		Requirement: shared.Requirement{SlotID: d.slot},
		Prompt:      fmt.Sprintf("%d: is anybody there?", time.Now().UnixNano()), MaxTokens: 1, IgnoreEOS: true,
	}, func(shared.Chunk) error { return nil })
	return err
}

func (d *drill) info(ctx context.Context) (shared.SlotInfo, error) {
	list, err := d.frontend.ListSlots(ctx)
	if err != nil {
		return shared.SlotInfo{}, err
	}
	return slotOf(list, d.slot)
}

// slotOf finds a slot by its id or an alias.
func slotOf(list shared.SlotList, name string) (shared.SlotInfo, error) {
	for _, s := range list.Slots {
		if s.SlotID == name || s.SlotID == list.Aliases[name] {
			return s, nil
		}
	}
	return shared.SlotInfo{}, &shared.Error{Op: "drill", Kind: shared.KindNotFound, Field: "slot_id", Message: fmt.Sprintf("no slot or alias is called %q", name)}
}

// until watches the slot until it is as wanted, for as long as a case may take.
func (d *drill) until(ctx context.Context, holds func(shared.SlotInfo) bool) (last shared.SlotInfo, seen bool, err error) {
	// No deadline, which the supervisor would learn of and could act on first.
	watch, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(d.within, stop).Stop()
	err = d.frontend.WatchSlots(watch, func(list shared.SlotList) error {
		var err error
		if last, err = slotOf(list, d.slot); err != nil {
			return err
		}
		if holds(last) {
			return errSeen
		}
		return nil
	})
	switch {
	case errors.Is(err, errSeen):
		return last, true, nil
	case ctx.Err() != nil:
		return last, false, context.Cause(ctx)
	case watch.Err() != nil:
		return last, false, nil
	default:
		return last, false, err
	}
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// refuseBusy refuses to cut off requests that nobody said may be cut off.
func (d *drill) refuseBusy(ctx context.Context) error {
	info, err := d.info(ctx)
	if err != nil {
		return err
	}
	if info.InFlight > 0 {
		return &shared.Error{
			Op: "drill", SlotID: info.SlotID, Kind: shared.KindBusy,
			Message: fmt.Sprintf("%d requests are running, and the drill would cut them off; wait, or give --yes", info.InFlight),
		}
	}
	return nil
}

// workerOf finds the process to do harm to.
func (a *app) workerOf(slotID string, pid int) (victim, error) {
	return supervisor.FindWorker(a.statePath(), slotID, pid)
}
