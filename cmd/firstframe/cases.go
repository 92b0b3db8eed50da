package main

import (
	"context"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// The cases of the benchmark.
const (
	caseCold     = "cold_slot_no_context_page"
	caseResident = "resident_slot_no_context_page"
	caseHit      = "resident_slot_context_page_hit"
	caseEvicted  = "evicted_slot_host_buffer_kept"
	caseDisk     = "restarted_worker_disk_pages"
	caseHostHit  = "resident_slot_host_page_hit"
	caseDiskHit  = "resident_slot_disk_page_hit"
	// Two slots that are asked in turns: both resident, or room for one only.
	caseSwitch      = "switch_between_resident_slots"
	caseBudget      = "switch_under_budget"
	caseBudgetKnown = "switch_under_budget_known_prompt"
	// Many conversations that share system prompts: the first with each of them,
	// and the later ones.
	caseSharedFirst = "shared_prefix_first"
	caseSharedLater = "shared_prefix_later"
)

// measure runs one prompt on one slot and gives each piece of text to deliver.
func measure(ctx context.Context, f shared.Frontend, slotID, prompt string, maxTokens int, deliver func(string) error) (shared.Measured, error) {
	return shared.GenerateAtEdge(ctx, f, time.Now(), shared.GenerateRequest{
		Requirement: shared.Requirement{SlotID: slotID},
		Messages:    []shared.Message{{Role: "user", Content: prompt}},
		MaxTokens:   maxTokens,
	}, func(c shared.Chunk) error {
		if c.Text == "" {
			return nil
		}
		return deliver(c.Text)
	})
}

// makeEmpty frees both buffers; the worker process stays.
func makeEmpty(ctx context.Context, f shared.Frontend, slotID string) error {
	_, err := f.Evict(ctx, slotID, true)
	return err
}

// makeRestarted kills the worker once its pages are on disk, and prepares the
// next one.
func makeRestarted(ctx context.Context, f shared.Frontend, slotID string) error {
	if err := awaitDisk(ctx, f, slotID); err != nil {
		return err
	}
	if _, err := f.Restart(ctx, slotID); err != nil {
		return err
	}
	_, err := f.Prepare(ctx, slotID, nil)
	return err
}

// makeOnlyDisk empties the host tier of pages once they are on disk.
func makeOnlyDisk(ctx context.Context, f shared.Frontend, slotID string) error {
	if err := awaitDisk(ctx, f, slotID); err != nil {
		return err
	}
	if err := makeEmpty(ctx, f, slotID); err != nil {
		return err
	}
	_, err := f.Prepare(ctx, slotID, nil)
	return err
}

// awaitDisk waits until every page in host memory is on disk as well.
func awaitDisk(ctx context.Context, f shared.Frontend, slotID string) error {
	for {
		pages, err := pagesOf(ctx, f, slotID)
		if err != nil || pages.Disk.Pages >= pages.Host.Pages {
			return err
		}
		select {
		case <-time.After(diskLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func pagesOf(ctx context.Context, f shared.Frontend, slotID string) (shared.PageStats, error) {
	list, err := f.ListSlots(ctx)
	if err != nil {
		return shared.PageStats{}, err
	}
	for _, s := range list.Slots {
		if s.SlotID == slotID {
			return s.Load.Pages, nil
		}
	}
	return shared.PageStats{}, shared.Errorf(shared.KindNotFound, "there is no slot %q", slotID)
}

// diskLook is how often to look whether pages have reached the disk.
const diskLook = 10 * time.Millisecond

// makeEvicted frees the device buffers and keeps the host buffer.
func makeEvicted(ctx context.Context, f shared.Frontend, slotID string) error {
	_, err := f.Evict(ctx, slotID, false)
	return err
}
