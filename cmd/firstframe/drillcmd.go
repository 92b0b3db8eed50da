package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firstframe/firstframe/shared"
)

type drillJSON struct {
	SlotID string          `json:"slot_id"`
	OK     bool            `json:"ok"`
	Cases  []drillCaseJSON `json:"cases"`
}

// drillCaseJSON has null for what did not happen.
type drillCaseJSON struct {
	Case        string   `json:"case"`
	OK          bool     `json:"ok"`
	Tried       bool     `json:"tried"`
	DetectedMS  *float64 `json:"detected_ms"`
	RecoveredMS *float64 `json:"recovered_ms"`
	Note        string   `json:"note"`
}

// drillOptions are the flags of doctor --drill.
type drillOptions struct {
	slot   string
	yes    bool
	within time.Duration
	json   bool
}

func (a *app) drill(ctx context.Context, o drillOptions) error {
	frontend, done, err := a.attach(ctx)
	if err != nil {
		return err
	}
	defer done()
	d := &drill{frontend: frontend, slot: o.slot, within: o.within, find: a.workerOf, fillDisk: fillDisk(), progress: a.progressf}
	return a.runDrill(ctx, d, o)
}

func (a *app) runDrill(ctx context.Context, d *drill, o drillOptions) error {
	if !o.yes {
		if err := d.refuseBusy(ctx); err != nil {
			return err
		}
	}
	results, err := d.run(ctx)
	if err != nil {
		return err
	}
	doc := toDrillJSON(d.slot, results)
	if err := a.printDrill(doc, results, o.json); err != nil {
		return err
	}
	if !doc.OK {
		return &silentError{errors.New("the slot did not get over everything by itself")}
	}
	return nil
}

func toDrillJSON(slot string, results []drillResult) drillJSON {
	doc := drillJSON{SlotID: slot, OK: true}
	for _, r := range results {
		c := drillCaseJSON{Case: r.name, OK: r.unaided || !r.done, Tried: r.done, DetectedMS: happened(r.noticed), RecoveredMS: happened(r.recovered), Note: r.note}
		doc.OK = doc.OK && c.OK
		doc.Cases = append(doc.Cases, c)
	}
	return doc
}

func happened(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	ms := shared.Milliseconds(d)
	return &ms
}

func (a *app) printDrill(doc drillJSON, results []drillResult, asJSON bool) error {
	if asJSON {
		return a.printJSON(doc)
	}
	t := table(a.out)
	fmt.Fprintln(t, "CASE\tDETECTED\tRECOVERED\tNOTE")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.name, lasted(r.noticed), lasted(r.recovered), dash(r.note))
	}
	return t.Flush()
}

func lasted(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}
