package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/hcl"
	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// otherPage is the page size of a second slot of the same model, which makes it
// another identity: a request for one of them never goes to the other.
const otherPage = 32

// switches measures going back to a slot after another one was asked: with both
// resident, and with memory for one of them only.
func (b *bencher) switches(ctx context.Context, state string) error {
	other := b.spec
	other.SlotID, other.Model, other.PageTokens = b.spec.SlotID+"-other", b.spec.Model+"-other", otherPage
	slots := []shared.SlotSpec{b.spec, other}
	turn := func(ctx context.Context, f shared.Frontend, _ string) error {
		b.asked++
		_, err := b.askNumber(ctx, f, other.SlotID, b.asked)
		return err
	}
	if b.o.wants(wantSwitch) {
		err := b.app.withStack(ctx, state, slots, func(f shared.Frontend) error {
			if _, err := b.ask(ctx, f, b.spec.SlotID, false); err != nil { // not counted: it prepares the slot
				return err
			}
			return b.run(ctx, f, b.spec.SlotID, benchCase{want: wantSwitch, name: caseSwitch, before: turn})
		})
		if err != nil {
			return err
		}
	}
	if !b.o.wants(wantBudget) {
		return nil
	}
	budget, err := roomForOne(b.spec, other)
	if err != nil {
		return err
	}
	life := hcl.Life{DrainTimeout: demoDrain, Budgets: budget}
	return b.app.withStackOf(ctx, stackConfig{stateDir: state, slots: slots, logger: hclog.NewNullLogger(), life: life}, func(f shared.Frontend) error {
		if _, err := b.ask(ctx, f, b.spec.SlotID, false); err != nil { // not counted: it starts the worker
			return err
		}
		cases := []benchCase{
			{want: wantBudget, name: caseBudget, before: turn},
			{want: wantBudget, name: caseBudgetKnown, known: true, before: func(ctx context.Context, f shared.Frontend, slot string) error {
				// Asked before the switch, so that its pages are there.
				if _, err := b.ask(ctx, f, slot, false); err != nil {
					return err
				}
				return turn(ctx, f, slot)
			}},
		}
		for _, c := range cases {
			if err := b.run(ctx, f, b.spec.SlotID, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// roomForOne is a budget in which the device buffers of each slot fit alone, and
// not those of both as estimated. Host buffers are kept.
func roomForOne(a, b shared.SlotSpec) (map[string]int64, error) {
	var needs [2]int64
	for i, spec := range []shared.SlotSpec{a, b} {
		header, err := gguf.ReadFile(spec.ModelPath)
		if err != nil {
			return nil, err
		}
		if needs[i] = header.DeviceNeed(spec); needs[i] <= 0 {
			return nil, fmt.Errorf("cannot tell what a slot of %s needs", spec.Model)
		}
	}
	return map[string]int64{a.Device: max(needs[0], needs[1])}, nil
}
